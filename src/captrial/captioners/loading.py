"""Any captioner by what names it; endpoints need no torch.

| source | what it is |
| --- | --- |
| `transformer` | a captioner that comes with the package |
| `runs/mine` | a run folder or checkpoint of this package |
| `path/to/checkpoint`, `owner/model` | a transformers captioner or VLM, by folder or by name on the hub |
| `http://host/v1#model` | an OpenAI-compatible endpoint |

Options stand behind a question mark: `owner/model?prompt=Describe it.&beam=3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, overload
from urllib.parse import parse_qsl, urlencode

from PIL import Image

from captrial.captioners.runner import AnyCaptioner
from captrial.captioners.shipped import DEFAULT, shipped
from captrial.data.images import open_image
from captrial.errors import InputError, MissingExtraError

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
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load_captioner(source: str, beam: int | None = None, **options: Any) -> AnyCaptioner:
    """A captioner by its source (see the module's table); options given here go before those behind the source."""
    given = {name: value for name, value in {"beam": beam, **options}.items() if value is not None}
    check_source(source)
    name, told = split_source(source)
    chosen = {**told, **given}
    if is_address(name):
        from captrial.captioners.endpoint import EndpointCaptioner

        asked = EndpointCaptioner.parse(name)
        for option, value in read_options(source, chosen, ENDPOINT_OPTIONS).items():
            setattr(asked, option, value)
        return asked
    try:
        return _load(shipped().get(name, name), source, chosen)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"captioner {source} ({error.name} is not installed)", "models") from None


def check_source(source: str) -> None:
    """Refuse at once what cannot be a captioner; whether the hub has `owner/model` is seen when it is loaded."""
    name, _ = split_source(source)
    if is_address(name):
        from captrial.captioners.endpoint import EndpointCaptioner

        EndpointCaptioner.parse(name)
    elif not (name in shipped() or Path(name).expanduser().is_dir() or _ON_THE_HUB.fullmatch(name)):
        raise InputError(
            f"{name}: no such folder and no captioner of that name; there are: {', '.join(shipped())}; "
            "or give a run folder, owner/model on the hub, http://host/v1#model"
        )


def _load(name: Path | str, source: str, options: Mapping[str, Any]) -> AnyCaptioner:
    """One of ours where the source is a folder of ours, otherwise a transformers model."""
    from captrial.captioners.huggingface.hub_checkpoints import is_transformers
    from captrial.captioners.trained import TrainedCaptioner

    folder = Path(name).expanduser()
    if folder.is_dir() and not is_transformers(folder):
        return TrainedCaptioner.load(folder, **read_options(source, options, TRAINED_OPTIONS))
    from captrial.captioners.huggingface.adapter import HfOptions, load_transformers

    return load_transformers(str(name), HfOptions(**read_options(source, options, HF_OPTIONS)))


def split_source(source: str) -> tuple[str, dict[str, str]]:
    """The source and the options behind its question mark.

    >>> split_source("owner/model?prompt=What is this?&beam=3")
    ('owner/model', {'prompt': 'What is this?', 'beam': '3'})
    """
    address, hash_, model = source.partition("#") if is_address(source) else ("", "", source)
    name, _, query = model.partition("?")
    return address + hash_ + name, dict(parse_qsl(query, keep_blank_values=True))


def with_options(source: str, **options: object) -> str:
    """The source with options behind it; those that are None are left out.

    >>> with_options("owner/model?beam=3", prompt="What is it?", batch=None)
    'owner/model?beam=3&prompt=What+is+it%3F'
    """
    name, told = split_source(source)
    chosen = {**told, **{option: value for option, value in options.items() if value is not None}}
    return f"{name}?{urlencode(chosen)}" if chosen else name


def read_options(source: str, given: Mapping[str, Any], known: Mapping[str, type]) -> dict[str, Any]:
    """Options with the types they have; strings are read, and numbers must be above 0."""
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


def is_address(source: str) -> bool:
    """Whether a source names an endpoint."""
    return source.startswith(("http://", "https://"))


# The way in for Python: `captrial.load` gives a captioner, `captrial.caption` its sentences about some images.
#
# What these two name and what the command line names is the same: a shipped captioner, a folder, a model on the hub, an
# endpoint (see `captrial.captioners.loading`). `captrial.score`, `captrial.explain` and `captrial.Competition` live in
# their rooms.


ImageLike = Image.Image | Path | str | bytes  # opened; a file; the content of a file
BATCH = 16  # images at once


def load(source: str | Path = DEFAULT, *, beam: int | None = None, **options: Any) -> AnyCaptioner:
    """A captioner, by a shipped name, a run or checkpoint folder, `owner/model` on the hub, or `http://host/v1#model`.

    `beam` is the width of its search (5 for ours); `options` are those that may stand behind the source's question
    mark, such as `prompt="What is this?"` for a VLM or `precision="int8"` for one of ours.
    """
    return load_captioner(str(source), beam, **options)


@overload
def caption(  # type: ignore[overload-overlap]  # a str is a sequence of str, too: it is a path here
    images: ImageLike,
    model: AnyCaptioner | str | Path | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> str: ...


@overload
def caption(
    images: Iterable[ImageLike],
    model: AnyCaptioner | str | Path | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> list[str]: ...


def caption(
    images: ImageLike | Iterable[ImageLike],
    model: AnyCaptioner | str | Path | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> str | list[str]:
    """What a captioner says about an image, or about each of several, `batch` of them opened at a time.

    An image is a path, a PIL image or the bytes of a file. `model` is what `load` takes or gives; without one the
    captioner that comes with the package speaks. For folders, shards and millions of images there is
    `captrial caption`, which resumes and never stops at a bad image; this raises `ImageError` for one.
    """
    if batch < 1:
        raise InputError(f"batch={batch}: at least one image must be captioned at a time")
    model = _speaker(model, beam)
    if isinstance(images, ImageLike):
        return model.caption([_opened(images)])[0]
    said: list[str] = []
    coming = iter(images)
    while part := [_opened(image) for image in islice(coming, batch)]:
        said += model.caption(part)
    return said


def _speaker(model: AnyCaptioner | str | Path | None, beam: int | None) -> AnyCaptioner:
    if model is None or str(model) in shipped():
        return _shipped(str(model or DEFAULT), beam)
    if isinstance(model, str | Path):
        return load(model, beam=beam)
    if beam is not None:
        raise InputError("beam belongs to loading: captrial.load(source, beam=...), then caption with that captioner")
    return model


@lru_cache(maxsize=4)
def _shipped(name: str, beam: int | None) -> AnyCaptioner:
    """What ships never changes, so it is loaded once; a folder of yours may, so it is loaded when asked for."""
    return load(name, beam=beam)


def _opened(image: ImageLike) -> Image.Image:
    return image if isinstance(image, Image.Image) else open_image(image)
