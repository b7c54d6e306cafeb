"""From a checkpoint's `preprocessor_config.json` to our `Preprocess`: transformers' own processors need torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from captrial.errors import InputError
from captrial.vision.preprocess import Preprocess

WARPED_FROM = 384  # ConvNeXt and ResNet checkpoints are cropped below this size and warped from it on


def preprocess_from_settings(settings: Mapping[str, Any], source: str) -> Preprocess:
    """The same square, resampling and normalisation as the checkpoint's own image processor makes.

    Old files give `size` as one number: the shorter side where a centre crop follows, else the side of a square.
    """
    if not settings.get("do_resize", True):
        raise InputError(f"{source} takes pictures of any size (do_resize is false); pass preprocess=Preprocess(...)")
    size, shorter = _sizes(settings, source)
    mode = "stretch" if shorter is None else "crop"
    mean, std = normalisation(settings, source)
    return Preprocess(size, mode, shorter or Preprocess.shorter, mean, std, resampling(settings))  # type: ignore[arg-type]


def resampling(settings: Mapping[str, Any], default: str = "bicubic") -> str:
    """The name of the resampling filter."""
    number = settings.get("resample")
    return default if number is None else Image.Resampling(number).name.lower()


def normalisation(settings: Mapping[str, Any], source: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of pixels in [0, 1], the processor's own rescaling put into them."""
    mean, std = (0.0,) * 3, (1.0,) * 3
    if settings.get("do_normalize", True):
        if "image_mean" not in settings or "image_std" not in settings:
            raise InputError(f"{source}: its preprocessor_config.json normalises, but has no image_mean and image_std")
        mean, std = tuple(settings["image_mean"]), tuple(settings["image_std"])
    factor = 255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255.0
    if abs(factor - 1) < 1e-6:
        return mean, std
    return tuple(value / factor for value in mean), tuple(value / factor for value in std)


def _sizes(settings: Mapping[str, Any], source: str) -> tuple[int, int | None]:
    """The side of the square, and the shorter side before its cropping (None: no cropping)."""
    size = settings.get("size")
    if settings.get("crop_pct"):
        side = _one_side(size, source)
        return (side, None) if side >= WARPED_FROM else (side, int(side / settings["crop_pct"]))
    if settings.get("do_center_crop"):
        side = _one_side(settings.get("crop_size", size), source)
        if isinstance(size, int) or (size and "shortest_edge" in size):
            return side, _one_side(size, source)
        raise InputError(f"{source} stretches and then crops its pictures; pass preprocess=Preprocess(...)")
    if isinstance(size, Mapping) and "height" not in size:
        raise InputError(f"{source} makes pictures of many shapes (size {dict(size)}); pass preprocess=Preprocess(...)")
    return _one_side(size, source), None


def _one_side(size: Any, source: str) -> int:
    if isinstance(size, Mapping):
        sides = {int(size[key]) for key in ("shortest_edge", "height", "width") if size.get(key)}
        if len(sides) == 1:
            return sides.pop()
    elif isinstance(size, int):
        return size
    raise InputError(f"{source}: only square pictures are supported, not size {size}; pass preprocess=Preprocess(...)")
