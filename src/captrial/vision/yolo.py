"""The arithmetic of YOLO-style detectors: letterbox in, the three output layouts of the family out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from captrial.errors import InputError

Floats = NDArray[np.float32]
Layout = Literal["v5", "v8", "v8-rows", "end-to-end"]

GREY = 114  # what the border of a letterbox is filled with, in training as here
STRIDES = (8, 16, 32)
MASKS = 32  # coefficients a segmentation model gives every candidate
MOST_FINAL = 1000  # rows of an end-to-end model, which has suppressed doubles itself (300 as a rule)


@dataclass(frozen=True)
class Letterbox:
    """A picture scaled into a `height` x `width` frame with its shape kept, centred on grey."""

    scale: float
    left: int
    top: int

    @classmethod
    def fit(cls, picture: Image.Image, height: int, width: int) -> tuple[Letterbox, Floats]:
        """The arrangement, and the pixels (3, height, width) in [0, 1]."""
        scale = min(height / picture.height, width / picture.width)
        columns, rows = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
        left, top = (width - columns) // 2, (height - rows) // 2
        frame = np.full((height, width, 3), GREY, np.uint8)
        small = picture.convert("RGB").resize((columns, rows), Image.Resampling.BILINEAR)
        frame[top : top + rows, left : left + columns] = np.asarray(small)
        pixels = np.ascontiguousarray(frame.transpose(2, 0, 1), np.float32)
        return cls(scale, left, top), pixels / np.float32(255)

    def undo(self, boxes: Floats, size: tuple[int, int]) -> Floats:
        """Boxes (n, 4) of the frame in pixels of the picture of (width, height), cut off at its border."""
        shift = np.array([self.left, self.top, self.left, self.top], np.float32)
        moved: Floats = np.clip((boxes - shift) / np.float32(self.scale), 0, np.array([*size, *size], np.float32))
        return moved


@dataclass(frozen=True)
class Candidates:
    """What a network proposes for one picture, in pixels of its frame."""

    boxes: Floats  # (n, 4) x1 y1 x2 y2
    scores: Floats  # (n,)
    classes: NDArray[np.int64]  # (n,)

    def above(self, threshold: float, most: int) -> Candidates:
        """The at most `most` best ones that reach the threshold, best first; equal scores: the first."""
        order = np.argsort(-self.scores, kind="stable")[:most]
        order = order[self.scores[order] >= threshold]
        return Candidates(self.boxes[order], self.scores[order], self.classes[order])


def find_layout(shape: tuple[int, ...], classes: int, frame: tuple[int, int]) -> Layout:
    """Which layout an output of this shape (batch, rows, columns) is in.

    - `v5` (and v6, v7): a row a candidate: x y w h, objectness, classes
    - `v8` (and v9, v11, v12): a column a candidate: x y w h, classes; `v8-rows` is its transpose
    - `end-to-end` (v10, v26, or exported with suppression): a row a region: x1 y1 x2 y2, score, class

    The 32 mask coefficients of a segmentation model may stand behind the classes.

    >>> find_layout((1, 84, 8400), 80, (640, 640)), find_layout((1, 25200, 85), 80, (640, 640))
    ('v8', 'v5')
    """
    if len(shape) == 3:
        rows, columns = shape[1:]
        if columns == 6 and rows <= MOST_FINAL and not (classes == 1 and rows == 3 * _cells(frame)):
            return "end-to-end"
        if rows - classes in (4, 4 + MASKS) and (rows < columns or columns == _cells(frame)):
            return "v8"
        if columns - classes in (4, 4 + MASKS):
            return "v8-rows"
        if columns - classes in (5, 5 + MASKS):
            return "v5"
    raise InputError(
        f"an output of shape {shape} is no YOLO layout for {classes} classes: expected (1, {4 + classes}, n), "
        f"(1, n, {5 + classes}) or (1, n, 6); export the model without changes, or give its class names"
    )


def decode(output: Floats, layout: Layout, classes: int) -> Candidates:
    """One picture's output (rows, columns) as candidates, each with its best class."""
    if layout == "end-to-end":
        return Candidates(output[:, :4], output[:, 4], output[:, 5].astype(np.int64))
    table = output.T if layout == "v8" else output
    start = 5 if layout == "v5" else 4
    chances = table[:, start : start + classes]
    if layout == "v5":
        chances = chances * table[:, 4:5]  # p(class) = p(class | object) p(object)
    best = chances.argmax(1)
    middle, half = table[:, :2], table[:, 2:4] / 2
    boxes = np.concatenate([middle - half, middle + half], 1)
    return Candidates(boxes, chances[np.arange(len(best)), best], best)


def _cells(frame: tuple[int, int]) -> int:
    return sum((frame[0] // stride) * (frame[1] // stride) for stride in STRIDES)
