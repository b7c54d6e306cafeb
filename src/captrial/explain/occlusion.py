"""Occlusion: what a captioner no longer says when a region is covered. Needs nothing but captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageFilter, ImageStat

from captrial.captioners.running import AnyCaptioner
from captrial.errors import InputError
from captrial.explain.attribution import Array, Attribution, tile
from captrial.explain.maps import grid_of
from captrial.language.nouns import analyse

BATCH = 16  # pictures captioned at a time
GRID = (5, 5)
Cover = Callable[[Image.Image], Image.Image]


def occlude(
    captioner: AnyCaptioner,
    picture: Image.Image,
    boxes: Array | None = None,
    caption: str | None = None,
    covers: Sequence[str] = ("mean",),
) -> Attribution:
    """A word's score for a region is the share of `covers` under which its lemma is no longer said.

    `boxes` (e, 4) are relative to the picture, by default a grid of 5 x 5 cells; `covers` are names of `COVERS`. The
    caption is the captioner's own unless one is given. Words it does not say of the uncovered picture either score 0.
    """
    places = tile(*GRID) if boxes is None else np.asarray(boxes, np.float64).reshape(-1, 4)
    picture = picture.convert("RGB")
    own = captioner.caption([picture])[0]
    words = analyse([caption if caption is not None else own], phrases=False)[0]
    before = _lemmas([own])[0]
    lost = np.zeros((len(words.tokens), len(places)), np.float32)
    for cover in covers:
        pictures = [_covered(picture, box, _cover(cover)) for box in places]
        for place, after in enumerate(_lemmas(_caption_all(captioner, pictures))):
            lost[:, place] += [lemma in before and lemma not in after for lemma in words.lemmas]
    grid = GRID if boxes is None else grid_of(places)
    return Attribution(words.tokens, lost / max(1, len(covers)), places, "occlusion", grid=grid)


def _mean(picture: Image.Image) -> Image.Image:
    colour = tuple(round(value) for value in ImageStat.Stat(picture).mean)
    return Image.new("RGB", picture.size, colour)


def _grey(picture: Image.Image) -> Image.Image:
    return Image.new("RGB", picture.size, (128, 128, 128))


def _blur(picture: Image.Image) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(max(picture.size) / 12))


COVERS: dict[str, Cover] = {"mean": _mean, "grey": _grey, "blur": _blur}


def _cover(name: str) -> Cover:
    if name not in COVERS:
        raise InputError(f"no cover {name!r}; there are: {', '.join(COVERS)}")
    return COVERS[name]


def _covered(picture: Image.Image, box: Array, cover: Cover) -> Image.Image:
    """The picture with one region replaced by the same region of its cover."""
    width, height = picture.size
    left, top = int(np.floor(box[0] * width)), int(np.floor(box[1] * height))
    right, bottom = max(left + 1, int(np.ceil(box[2] * width))), max(top + 1, int(np.ceil(box[3] * height)))
    result = picture.copy()
    result.paste(cover(picture).crop((left, top, right, bottom)), (left, top))
    return result


def _caption_all(captioner: AnyCaptioner, pictures: Sequence[Image.Image]) -> list[str]:
    return [
        caption
        for start in range(0, len(pictures), BATCH)
        for caption in captioner.caption(pictures[start : start + BATCH])
    ]


def _lemmas(captions: Sequence[str]) -> list[frozenset[str]]:
    return [frozenset(found.lemmas) for found in analyse(captions, phrases=False)]
