"""Occlusion: which words leave the caption when a region is covered. Needs nothing but captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageFilter, ImageStat

from captrial.attribution.attribution import Array, Attribution, grid_of, tile
from captrial.captioners.protocols import AnyCaptioner
from captrial.errors import InputError
from captrial.language.nouns import analyse

BATCH = 16  # images captioned at a time
GRID = (5, 5)
Cover = Callable[[Image.Image], Image.Image]


def occlude(
    captioner: AnyCaptioner,
    image: Image.Image,
    boxes: Array | None = None,
    caption: str | None = None,
    covers: Sequence[str] = ("mean",),
) -> Attribution:
    """A word's score for a region is the share of `covers` under which its lemma leaves the caption.

    `boxes` (e, 4) are relative to the image, by default a grid of 5 x 5 cells; `covers` are names of `COVERS`. The
    caption is the captioner's own unless one is given. Words that the caption of the uncovered image lacks score 0.
    """
    places = tile(*GRID) if boxes is None else np.asarray(boxes, np.float64).reshape(-1, 4)
    image = image.convert("RGB")
    own = captioner.caption([image])[0]
    words = analyse([caption if caption is not None else own], phrases=False)[0]
    before = _lemmas([own])[0]
    lost = np.zeros((len(words.tokens), len(places)), np.float32)
    for cover in covers:
        images = [_covered(image, box, _cover(cover)) for box in places]
        for place, after in enumerate(_lemmas(_caption_all(captioner, images))):
            lost[:, place] += [lemma in before and lemma not in after for lemma in words.lemmas]
    grid = GRID if boxes is None else grid_of(places)
    return Attribution(words.tokens, lost / max(1, len(covers)), places, "occlusion", grid=grid)


def _mean(image: Image.Image) -> Image.Image:
    colour = tuple(round(value) for value in ImageStat.Stat(image).mean)
    return Image.new("RGB", image.size, colour)


def _grey(image: Image.Image) -> Image.Image:
    return Image.new("RGB", image.size, (128, 128, 128))


def _blur(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(max(image.size) / 12))


COVERS: dict[str, Cover] = {"mean": _mean, "grey": _grey, "blur": _blur}


def _cover(name: str) -> Cover:
    if name not in COVERS:
        raise InputError(f"no cover {name!r}; there are: {', '.join(COVERS)}")
    return COVERS[name]


def _covered(image: Image.Image, box: Array, cover: Cover) -> Image.Image:
    """The image with one region replaced by the same region of its cover."""
    width, height = image.size
    left, top = int(np.floor(box[0] * width)), int(np.floor(box[1] * height))
    right, bottom = max(left + 1, int(np.ceil(box[2] * width))), max(top + 1, int(np.ceil(box[3] * height)))
    result = image.copy()
    result.paste(cover(image).crop((left, top, right, bottom)), (left, top))
    return result


def _caption_all(captioner: AnyCaptioner, images: Sequence[Image.Image]) -> list[str]:
    return [
        caption
        for start in range(0, len(images), BATCH)
        for caption in captioner.caption(images[start : start + BATCH])
    ]


def _lemmas(captions: Sequence[str]) -> list[frozenset[str]]:
    return [frozenset(found.lemmas) for found in analyse(captions, phrases=False)]
