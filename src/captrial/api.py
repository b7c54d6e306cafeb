"""The way in for Python: `captrial.load` gives a captioner, `captrial.caption` its sentences about some pictures.

What these two name and what the command line names is the same: a shipped captioner, a folder, a model on the hub, an
endpoint (see `captrial.captioners.loading`). `captrial.score`, `captrial.explain` and `captrial.Competition` live in
their rooms.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, overload

from PIL import Image

from captrial.captioners.loading import load_captioner
from captrial.captioners.running import AnyCaptioner
from captrial.captioners.shipped import DEFAULT, shipped
from captrial.data.pictures import open_picture
from captrial.errors import InputError

PictureLike = Image.Image | Path | str | bytes  # opened; a file; the content of a file
BATCH = 16  # pictures at once


def load(source: str | Path = DEFAULT, *, beam: int | None = None, **options: Any) -> AnyCaptioner:
    """A captioner, by a shipped name, a run or checkpoint folder, `owner/model` on the hub, or `http://host/v1#model`.

    `beam` is the width of its search (5 for ours); `options` are those that may stand behind the source's question
    mark, such as `prompt="What is this?"` for a VLM or `precision="int8"` for one of ours.
    """
    return load_captioner(str(source), beam, **options)


@overload
def caption(  # type: ignore[overload-overlap]  # a str is a sequence of str, too: it is a path here
    pictures: PictureLike,
    model: AnyCaptioner | str | Path | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> str: ...


@overload
def caption(
    pictures: Iterable[PictureLike],
    model: AnyCaptioner | str | Path | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> list[str]: ...


def caption(
    pictures: PictureLike | Iterable[PictureLike],
    model: AnyCaptioner | str | Path | None = None,
    *,
    beam: int | None = None,
    batch: int = BATCH,
) -> str | list[str]:
    """What a captioner says about a picture, or about each of several, `batch` of them opened at a time.

    A picture is a path, a PIL image or the bytes of a file. `model` is what `load` takes or gives; without one the
    captioner that comes with the package speaks. For folders, shards and millions of pictures there is
    `captrial caption`, which resumes and never stops at a bad picture; this raises `PictureError` for one.
    """
    if batch < 1:
        raise InputError(f"batch={batch}: at least one picture must be captioned at a time")
    speaker = _speaker(model, beam)
    if isinstance(pictures, PictureLike):
        return speaker.caption([_opened(pictures)])[0]
    said: list[str] = []
    coming = iter(pictures)
    while part := [_opened(picture) for picture in islice(coming, batch)]:
        said += speaker.caption(part)
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


def _opened(picture: PictureLike) -> Image.Image:
    return picture if isinstance(picture, Image.Image) else open_picture(picture)
