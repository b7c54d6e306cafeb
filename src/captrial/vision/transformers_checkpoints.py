"""transformers checkpoints by name or local folder: loaded quietly, without pickles, and never with made-up weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from captrial.errors import InputError, MissingExtraError
from captrial.vision.preprocess import Preprocess

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?")


def resolve_source(source: str) -> str:
    """The full path of a local folder, else a name on the hub (`name` or `name@revision`).

    What can only be a path and is not there is an error.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.exists() or source.startswith((".", "~")) or not _HUB_NAME.fullmatch(source):
        raise InputError(f"{source} is no folder with a transformers checkpoint, nor a name on the hub; check the path")
    return source


def load_config(source: str) -> Any:
    """The configuration of a checkpoint."""
    with quiet_transformers() as transformers, _one_sentence(source):
        return transformers.AutoConfig.from_pretrained(**_place(source))


def load_network(source: str, auto: str, config: Any, pickle: bool = False) -> tuple[nn.Module, frozenset[str]]:
    """A checkpoint's network in float32 and eval mode, and the names of the weights it did not bring.

    `auto` is the transformers class that knows the architecture (`AutoModel`, `AutoModelForObjectDetection`, ...).
    transformers fills absent weights with random numbers: pass their names to `refuse_made_up_weights`.
    """
    with quiet_transformers() as transformers, _one_sentence(source):
        model = getattr(transformers, auto)
        if auto == "AutoBackbone":  # asks the hub even about local folders
            model = transformers.MODEL_FOR_BACKBONE_MAPPING[type(config)]
        network, report = model.from_pretrained(
            **_place(source),
            config=config,
            dtype=torch.float32,
            use_safetensors=None if pickle else True,
            output_loading_info=True,
        )
    network.requires_grad_(False).eval()
    return network, frozenset(report["missing_keys"])


def refuse_made_up_weights(
    network: nn.Module, missing: frozenset[str], results: Callable[[], Sequence[Tensor]], source: str
) -> None:
    """An error where `results` depend on weights that the checkpoint did not bring (a pooler's may be missing)."""
    parameters = {name: value for name, value in network.named_parameters() if name in missing}
    used = {name for name, _ in network.named_buffers() if name in missing and not name.endswith("batches_tracked")}
    if parameters:
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        with torch.enable_grad():
            total = sum((result.sum() for result in results()), torch.zeros(()))
            slopes = torch.autograd.grad(total, list(parameters.values()), allow_unused=True) if total.grad_fn else ()
        used |= {name for name, slope in zip(parameters, slopes, strict=False) if slope is not None}
        network.requires_grad_(False)
    if used:
        names = ", ".join(sorted(used)[:3])
        raise InputError(
            f"{source} lacks {len(used)} weights that its features need ({names}{', ...' if len(used) > 3 else ''}); "
            "they would be random numbers: use a complete checkpoint"
        )


def image_processor_settings(source: str) -> Mapping[str, Any]:
    """The checkpoint's own account of its preprocessing (`preprocessor_config.json`, or inside a processor's)."""
    with quiet_transformers():
        from transformers.image_processing_base import ImageProcessingMixin

        try:
            settings, _ = ImageProcessingMixin.get_image_processor_dict(**_place(source))
        except OSError:
            load_config(source)  # where nothing can be had of this checkpoint, that is the error
            raise InputError(
                f"{source} does not say how its images are prepared: it has no preprocessor_config.json; add the one "
                "of the model it was made from, or pass preprocess=Preprocess(...)"
            ) from None
    return dict(settings)


@contextmanager
def quiet_transformers() -> Iterator[Any]:
    """The transformers package with its progress bars and load reports off; `MissingExtraError` where it is absent."""
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("A transformers checkpoint", "hf") from None
    logging: Any = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield transformers
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _place(source: str) -> dict[str, str]:
    """The arguments by which transformers finds a checkpoint."""
    if Path(source).is_dir():
        return {"pretrained_model_name_or_path": source}
    name, _, revision = source.partition("@")
    return {"pretrained_model_name_or_path": name, "revision": revision or "main"}


@contextmanager
def _one_sentence(source: str) -> Iterator[None]:
    """What transformers raises on a checkpoint it cannot load, as one sentence."""
    try:
        yield
    except ImportError as error:  # an architecture with needs of its own, such as timm
        raise InputError(f"{source} cannot be loaded here: {_first_sentence(error)}") from None
    except Exception as error:  # a broken checkpoint can raise almost anything
        raise InputError(f"{source} cannot be loaded with transformers: {_first_sentence(error)}") from None


def _first_sentence(error: Exception) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(str(error).split()), maxsplit=1)[0][:300] or type(error).__name__


# From a checkpoint's `preprocessor_config.json` to our `Preprocess`: transformers' own processors need torchvision.


WARPED_FROM = 384  # ConvNeXt and ResNet checkpoints are cropped below this size and warped from it on


def preprocess_from_settings(settings: Mapping[str, Any], source: str) -> Preprocess:
    """The same square, resampling and normalisation as the checkpoint's own image processor makes.

    Old files give `size` as one number: the shorter side where a centre crop follows, else the side of a square.
    """
    if not settings.get("do_resize", True):
        raise InputError(f"{source} takes images of any size (do_resize is false); pass preprocess=Preprocess(...)")
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
