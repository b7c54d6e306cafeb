"""Records that all packages share: `Box`, `ImageRef`, `Caption`, `Region`, `Phrase`, `Sample`.

All are frozen. Boxes are `(x1, y1, x2, y2)` in pixels of the image, x to the right, y down, `x1 < x2`, `y1 < y2`.
Image ids are always strings: `"42"` in COCO, `"1000268201_693b08cb0e.jpg"` in Flickr8k, a relative path in a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Box(NamedTuple):
    """A rectangle in pixels: left, top, right, bottom."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def area(self) -> float:
        """Area in pixels; 0 for an empty box."""
        return max(self.x2 - self.x1, 0.0) * max(self.y2 - self.y1, 0.0)

    def intersection(self, other: Box) -> Box | None:
        """The common rectangle, or None if the boxes do not overlap."""
        box = Box(max(self.x1, other.x1), max(self.y1, other.y1), min(self.x2, other.x2), min(self.y2, other.y2))
        return box if box.x1 < box.x2 and box.y1 < box.y2 else None

    def iou(self, other: Box) -> float:
        """Intersection over union, in [0, 1].

        >>> Box(0, 0, 2, 2).iou(Box(1, 0, 3, 2))
        0.3333333333333333
        """
        common = self.intersection(other)
        if common is None:
            return 0.0
        return common.area / (self.area + other.area - common.area)


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A reference to an image: its id, file and size, but not its pixels (see `captrial.data.open_image`)."""

    id: str
    path: Path | None = None
    width: int | None = None
    height: int | None = None
    label: str | None = None  # class of the image in a pool, e.g. the sub-folder it came from


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption of one image by one captioner or person."""

    image_id: str
    text: str
    source: str | None = None  # model, annotator or data set


@dataclass(frozen=True, slots=True)
class Region:
    """A part of an image: a box, its label and score, and optionally a mask."""

    box: Box
    label: str | None = None
    score: float = 1.0
    mask: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)  # (height, width) of the image


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of a caption, by token indices `[start, end)`, and the regions it refers to."""

    text: str
    start: int
    end: int
    regions: tuple[Region, ...] = ()
    entity: str | None = None  # id shared by all phrases that refer to the same object
    kinds: tuple[str, ...] = ()  # e.g. ("people",), ("scene",), ("notvisual",)


@dataclass(frozen=True, slots=True)
class Sample:
    """An image with all its annotations in a data set: captions, split, regions, phrases and others in `extra`."""

    image: ImageRef
    captions: tuple[str, ...] = ()
    split: str | None = None
    regions: tuple[Region, ...] = ()
    phrases: tuple[tuple[Phrase, ...], ...] = ()  # one tuple per caption, aligned with `captions`
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The image's id."""
        return self.image.id
