"""Preprocessing: from an image to the square tensor that a backbone reads, and regions along with it.

`mask_on_square` and `union_on_square` put regions of an image on that square, after resizing and cropping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from captrial.errors import InputError
from captrial.records import Box, Region

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RESOLUTION = 224  # side of the square that maps are painted on (Liu 2017)
WARPED_FROM = 384  # ConvNeXt and ResNet checkpoints are cropped below this size and warped from it on
RESAMPLING = {filter.name.lower(): filter for filter in Image.Resampling}  # bicubic, bilinear, lanczos, ...


@dataclass(frozen=True)
class Preprocess:
    """How images are resized and normalised.

    `stretch` shows the whole image, squeezed into a square; `crop` resizes the shorter side to `shorter` and cuts the
    central square (Liu 2017: 256 and 224, or 512 and 448).
    """

    size: int = 224
    mode: Literal["stretch", "crop"] = "stretch"
    shorter: int = 256  # used by `crop`
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    resample: str = "bicubic"  # a key of RESAMPLING

    def __post_init__(self) -> None:
        if self.mode not in ("stretch", "crop"):
            raise InputError(f"no preprocessing mode {self.mode!r}; there are: stretch, crop")
        if self.size < 1:
            raise InputError(f"images cannot have a size of {self.size} pixels")
        if self.mode == "crop" and self.shorter < self.size:
            raise InputError(f"cannot crop {self.size} pixels out of a shorter side of {self.shorter}")
        if self.resample not in RESAMPLING:
            raise InputError(f"no resampling {self.resample!r}; there are: {', '.join(RESAMPLING)}")

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Preprocess:
        """The inverse of `describe`, also from JSON."""
        values: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in description.items()}
        try:
            return cls(**values)
        except TypeError:
            raise InputError(f"not a description of preprocessing: {dict(description)}") from None

    @classmethod
    def from_processor(cls, settings: Mapping[str, Any], source: str) -> Preprocess:
        """As a transformers checkpoint's own image processor: the same square, resampling and normalisation.

        `settings` are those of its `preprocessor_config.json`; transformers' default processors need torchvision, so
        they are not used. Old files give `size` as one number: the shorter side where a centre crop follows, else the
        side of a square.
        """
        if not settings.get("do_resize", True):
            raise InputError(f"{source} takes images of any size (do_resize is false); pass preprocess=Preprocess(...)")
        size, shorter = _sizes(settings, source)
        mode: Literal["stretch", "crop"] = "stretch" if shorter is None else "crop"
        mean, std = normalisation(settings, source)
        return cls(size, mode, shorter or cls.shorter, mean, std, resampling(settings))  # type: ignore[arg-type]

    @classmethod
    def of(cls, vision: Mapping[str, Any]) -> Preprocess:
        """The preprocessing that a checkpoint or feature store describes (see `Backbone.describe`)."""
        if "preprocess" not in vision:
            raise InputError(
                "these features have no description of their preprocessing; boxes cannot be mapped to them"
            )
        return cls.from_description(vision["preprocess"])

    def to_square(self, image: Image.Image) -> Image.Image:
        """The square that the model gets, in RGB."""
        image, resampling = image.convert("RGB"), RESAMPLING[self.resample]
        if self.mode == "stretch":
            return image.resize((self.size, self.size), resampling)
        left, top, side = self._window(image.width, image.height)
        box = (left, top, left + side, top + side)
        return image.resize((self.size, self.size), resampling, box=box)

    def __call__(self, image: Image.Image) -> Tensor:
        """The normalised image, (3, size, size) float32."""
        pixels = torch.from_numpy(np.asarray(self.to_square(image)).copy()).permute(2, 0, 1).float() / 255
        return (pixels - torch.tensor(self.mean).view(3, 1, 1)) / torch.tensor(self.std).view(3, 1, 1)

    def move_box(self, box: Box, width: int, height: int) -> Box | None:
        """A box of a `width` x `height` image, relative to the square in [0, 1]; None where it was cropped away."""
        left, top, side_x, side_y = 0.0, 0.0, float(width), float(height)
        if self.mode == "crop":
            left, top, side_x = self._window(width, height)
            side_y = side_x
        moved = Box(
            (box.x1 - left) / side_x, (box.y1 - top) / side_y, (box.x2 - left) / side_x, (box.y2 - top) / side_y
        )
        return moved.intersection(Box(0.0, 0.0, 1.0, 1.0))

    def to_image(self, box: Box, width: int, height: int) -> Box:
        """The inverse of `move_box`: a relative box of the square in pixels of the image."""
        if self.mode == "stretch":
            return Box(box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height)
        left, top, side = self._window(width, height)
        return Box(left + box.x1 * side, top + box.y1 * side, left + box.x2 * side, top + box.y2 * side)

    def describe(self) -> dict[str, object]:
        """Plain values that name this preprocessing in checkpoints and feature stores."""
        values = asdict(self)
        if self.resample == "bicubic":  # descriptions older than this field stay valid
            del values["resample"]
        return values

    def _window(self, width: int, height: int) -> tuple[float, float, float]:
        """Left, top and side of the central square, in pixels of the image."""
        side = min(width, height) * self.size / self.shorter
        return (width - side) / 2, (height - side) / 2, side


def mask_on_square(
    region: Region, width: int, height: int, preprocess: Preprocess, resolution: int = RESOLUTION
) -> NDArray[np.bool_]:
    """Which pixels of the square (resolution, resolution) lie in a region of a `width` x `height` image.

    A region that carries a mask is its mask, else its box; a pixel counts by its centre.
    """
    centres = (np.arange(resolution) + 0.5) / resolution
    whole = preprocess.to_image(Box(0, 0, 1, 1), width, height)
    x = whole.x1 + centres * (whole.x2 - whole.x1)
    y = whole.y1 + centres * (whole.y2 - whole.y1)
    if region.mask is not None:
        rows, columns = np.clip(y.astype(int), 0, height - 1), np.clip(x.astype(int), 0, width - 1)
        return np.asarray(region.mask[np.ix_(rows, columns)])
    box = region.box
    return np.outer((y >= box.y1) & (y < box.y2), (x >= box.x1) & (x < box.x2))


def union_on_square(
    regions: Iterable[Region], width: int, height: int, preprocess: Preprocess, resolution: int = RESOLUTION
) -> NDArray[np.bool_]:
    """Which pixels of the square lie in any of the regions; nothing is left where all were cropped away."""
    union = np.zeros((resolution, resolution), dtype=bool)
    for region in regions:
        union |= mask_on_square(region, width, height, preprocess, resolution)
    return union


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
        raise InputError(f"{source} stretches and then crops its images; pass preprocess=Preprocess(...)")
    if isinstance(size, Mapping) and "height" not in size:
        raise InputError(f"{source} makes images of many shapes (size {dict(size)}); pass preprocess=Preprocess(...)")
    return _one_side(size, source), None


def _one_side(size: Any, source: str) -> int:
    if isinstance(size, Mapping):
        sides = {int(size[key]) for key in ("shortest_edge", "height", "width") if size.get(key)}
        if len(sides) == 1:
            return sides.pop()
    elif isinstance(size, int):
        return size
    raise InputError(f"{source}: only square images are supported, not size {size}; pass preprocess=Preprocess(...)")
