"""Load any captioner by its source and caption images with it: `captrial.load` and `captrial.caption`.

| source | what it is |
| --- | --- |
| `transformer` | a captioner that comes with the package |
| `runs/mine` | a run folder or checkpoint of this package |
| `path/to/checkpoint`, `owner/model` | a transformers captioner or VLM, by folder or by name on the hub |
| `http://host/v1#model` | an OpenAI-compatible endpoint |

Options follow a question mark: `owner/model?prompt=Describe it.&beam=3`. Endpoints need no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, overload
from urllib.parse import parse_qsl, urlencode

from PIL import Image

from captrial.captioners.protocols import AnyCaptioner
from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.data.images import header_pixels, open_image, pixel_batches
from captrial.errors import InputError, MissingExtraError, did_you_mean

ENDPOINT_OPTIONS = {"prompt": str, "max_tokens": int, "concurrency": int, "timeout": float, "longest_side": int}
TRAINED_OPTIONS = {"beam": int, "precision": str, "device": str, "backbone": str}
HF_OPTIONS = {
    "prompt": str,
    "beam": int,
    "max_tokens": int,
    "batch": int,
    "device": str,
    "dtype": str,
    "revision": str,
    "trust_remote_code": bool,
    "allow_pickle": bool,
}
BATCH = 16  # images at once
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

ImageLike = Image.Image | Path | str | bytes  # opened; a file; the content of a file
CaptionerLike = AnyCaptioner | str | Path  # loaded; a source


def load_captioner(source: str | Path = DEFAULT_CAPTIONER, beam: int | None = None, **options: Any) -> AnyCaptioner:
    """A captioner by its source (see the module's table); options given here take precedence over those in the source.

    `beam` is the width of its search (default 5, chat models 1). Other options are, for example, `prompt="What is
    this?"` for a VLM or `precision="int8"` for a captioner of this package; docs/captioners.md lists them.

    Raises `InputError` for an unknown source or option, `MissingExtraError` where the captioner's libraries are not
    installed.
    """
    source = str(source)
    check_source(source)
    name, in_source = split_source(source)
    given = {option: value for option, value in {"beam": beam, **options}.items() if value is not None}
    chosen = {**in_source, **given}
    if is_address(name):
        return _load_endpoint(name, read_options(source, chosen, ENDPOINT_OPTIONS))
    try:
        shipped = shipped_captioners().get(name)
        return _load_model(name, source, chosen) if shipped is None else _load_trained(shipped, source, chosen)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"captioner {source} ({error.name} is not installed)", "models") from None


@overload
def caption(  # type: ignore[overload-overlap]  # a str is a sequence of str, too: it is a path here
    images: ImageLike, model: CaptionerLike | None = None, *, beam: int | None = None, batch: int = BATCH
) -> str: ...


@overload
def caption(
    images: Iterable[ImageLike], model: CaptionerLike | None = None, *, beam: int | None = None, batch: int = BATCH
) -> list[str]: ...


def caption(
    images: ImageLike | Iterable[ImageLike],
    model: CaptionerLike | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> str | list[str]:
    """Caption one image (returns a string) or several (returns a list), `batch` of them opened at a time.

    An image is a path, a PIL image or the bytes of a file. `model` is a loaded captioner or a source; the default is
    the captioner that comes with the package. An image that cannot be opened raises `ImageError`. For folders, shards
    and millions of images use `captrial caption`, which resumes and skips bad images.
    """
    if batch < 1:
        raise InputError(f"batch={batch}: at least one image must be captioned at a time")
    captioner = _loaded(model, beam)
    if isinstance(images, ImageLike):
        return captioner.caption([_opened(images)])[0]
    captions: list[str] = []
    for part in pixel_batches(images, _pixels, largest=batch):  # few large images, or many small ones
        captions += captioner.caption([_opened(image) for image in part])
    return captions


def check_source(source: str) -> None:
    """Refuse what cannot be a captioner; whether the hub has `owner/model` is only known once it is loaded."""
    name, _ = split_source(source)
    if is_address(name):
        from captrial.captioners.endpoint import EndpointCaptioner

        EndpointCaptioner.parse(name)
    elif not (name in shipped_captioners() or Path(name).expanduser().is_dir() or _HUB_NAME.fullmatch(name)):
        known = shipped_captioners()
        raise InputError(
            f"{name}: no such folder and no captioner of that name; there are: {', '.join(known)}; "
            f"or give a run folder, owner/model on the hub, http://host/v1#model{did_you_mean(name, known)}"
        )


def is_address(source: str) -> bool:
    """Whether a source names an endpoint."""
    return source.startswith(("http://", "https://"))


def runs_code(source: str) -> bool:
    """Whether the options of a source allow code or pickles of its checkpoint; only a command line may do that.

    >>> runs_code("owner/model?trust_remote_code=true"), runs_code("owner/model?beam=3")
    (True, False)
    """
    options = split_source(source)[1]
    return not options.keys().isdisjoint(("trust_remote_code", "allow_pickle")) or any(
        "pickle" in value
        for value in options.values()  # of a backbone
    )


def split_source(source: str) -> tuple[str, dict[str, str]]:
    """The source without its options, and the options.

    >>> split_source("owner/model?prompt=What is this?&beam=3")
    ('owner/model', {'prompt': 'What is this?', 'beam': '3'})
    """
    address, hash_, model = source.partition("#") if is_address(source) else ("", "", source)
    name, _, query = model.partition("?")
    return address + hash_ + name, dict(parse_qsl(query, keep_blank_values=True))


def with_options(source: str, **options: object) -> str:
    """The source with more options; those that are None are left out.

    >>> with_options("owner/model?beam=3", prompt="What is it?", batch=None)
    'owner/model?beam=3&prompt=What+is+it%3F'
    """
    name, in_source = split_source(source)
    chosen = {**in_source, **{option: value for option, value in options.items() if value is not None}}
    return f"{name}?{urlencode(chosen)}" if chosen else name


def read_options(source: str, given: Mapping[str, Any], known: Mapping[str, type]) -> dict[str, Any]:
    """Options converted to their types; numbers must be above 0."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{source}: no option {name!r} for such a captioner; there are: {', '.join(known)}")
        try:
            found[name] = _TRUTH[str(value).lower()] if known[name] is bool else known[name](value)
            if known[name] in (int, float) and not found[name] > 0:
                raise ValueError
        except (ValueError, KeyError):
            raise InputError(f"{source}: option {name} cannot be {value!r}") from None
    return found


def _load_endpoint(address: str, options: Mapping[str, Any]) -> AnyCaptioner:
    from captrial.captioners.endpoint import EndpointCaptioner

    captioner = EndpointCaptioner.parse(address)
    for option, value in options.items():
        setattr(captioner, option, value)
    return captioner


def _load_trained(folder: Path, source: str, options: Mapping[str, Any]) -> AnyCaptioner:
    from captrial.captioners.trained import TrainedCaptioner

    return TrainedCaptioner.load(folder, **read_options(source, options, TRAINED_OPTIONS))


def _load_model(name: str, source: str, options: Mapping[str, Any]) -> AnyCaptioner:
    """A captioner of this package where the name is a folder of one, otherwise a transformers model."""
    from captrial.vision.hub_checkpoints import is_transformers

    folder = Path(name).expanduser()
    if folder.is_dir() and not is_transformers(folder):
        return _load_trained(folder, source, options)
    from captrial.captioners.huggingface import HfOptions, load_transformers

    return load_transformers(name, HfOptions(**read_options(source, options, HF_OPTIONS)))


def _loaded(model: CaptionerLike | None, beam: int | None) -> AnyCaptioner:
    if model is None or str(model) in shipped_captioners():
        return _load_shipped(str(model or DEFAULT_CAPTIONER), beam)
    if isinstance(model, str | Path):
        return load_captioner(model, beam=beam)
    if beam is not None:
        raise InputError("beam belongs to loading: captrial.load(source, beam=...), then caption with that captioner")
    return model


@lru_cache(maxsize=4)
def _load_shipped(name: str, beam: int | None) -> AnyCaptioner:
    """Shipped captioners never change, so they are loaded once; a user's folder may change, so it is loaded again."""
    return load_captioner(name, beam=beam)


def _pixels(image: ImageLike) -> int:
    return image.width * image.height if isinstance(image, Image.Image) else header_pixels(image)


def _opened(image: ImageLike) -> Image.Image:
    return image if isinstance(image, Image.Image) else open_image(image)
