"""The result of an attribution: for every word of a caption, how much every visual element weighed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.attribution.maps import class_token, grid_of
from captrial.errors import InputError

Array = NDArray[np.floating[Any]]
WHOLE = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Attribution:
    """One method's scores of `e` elements (regions, cells, patches or pixels) for `w` words of one caption.

    `scores` are what regions are ranked by: |A| summed over feature dimensions or colour channels,
    attention weights for attention maps. They are never NaN; an image without elements has `e = 0`.
    """

    words: tuple[str, ...]
    scores: Array  # (w, e), >= 0
    boxes: Array  # (e, 4) x1 y1 x2 y2 relative to the whole image, in [0, 1]
    method: str
    signed: Array | None = None  # (w, e): A summed over dimensions; what speaks against the word is negative
    grid: tuple[int, int] | None = None  # rows, columns where the elements tile `window`, row by row
    window: tuple[float, float, float, float] = WHOLE  # the part of the image the model saw, relative to it
    changes: Array | None = None  # (w,): S(image) - S(baseline), the sum that integrated gradients should reach
    errors: Array | None = None  # (w,): completeness error, where the method claims completeness
    steps: int = 0  # gradient evaluations along the path; 1 for plain gradients, 0 for attention and occlusion

    def __post_init__(self) -> None:
        words, elements = len(self.words), len(self.boxes)
        if self.scores.shape != (words, elements):
            raise InputError(f"attribution: scores are {self.scores.shape} for {words} words and {elements} boxes")
        if self.grid is not None and self.grid[0] * self.grid[1] != elements:
            raise InputError(f"attribution: a grid of {self.grid[0]} x {self.grid[1]} cells has not {elements} boxes")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def error(self) -> float | None:
        """The largest completeness error of a word."""
        return None if self.errors is None or not len(self.errors) else float(self.errors.max())

    def maps(self) -> Array:
        """The scores as images, (w, rows, columns); only where the elements tile the image."""
        if self.grid is None:
            raise InputError(f"{self.method}: these are scores of {len(self.boxes)} boxes, not of a grid")
        return self.scores.reshape(len(self.words), *self.grid)

    def without_class_token(self) -> Attribution:
        """The cells of a ViT alone: what is attributed to its class token has no place on a map."""
        if not len(self.boxes):
            return self
        left, top, right, bottom = self.window
        inside = (self.boxes - np.array([left, top] * 2)) / np.array([right - left, bottom - top] * 2)
        cells = ~class_token(inside)
        signed = None if self.signed is None else self.signed[:, cells]
        grid = self.grid if cells.all() else grid_of(inside[cells])
        return replace(self, scores=self.scores[:, cells], boxes=self.boxes[cells], signed=signed, grid=grid)

    def select(self, words: slice) -> Attribution:
        """The same for some of the words."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[words]

        return replace(
            self,
            words=self.words[words],
            scores=self.scores[words],
            signed=part(self.signed),
            changes=part(self.changes),
            errors=part(self.errors),
        )


def on_image(boxes: Array, window: tuple[float, float, float, float]) -> Array:
    """Boxes (e, 4) that are relative to `window`, relative to the whole image."""
    left, top, right, bottom = window
    found: Array = np.array([left, top] * 2) + boxes * np.array([right - left, bottom - top] * 2)
    return found


def tile(rows: int, columns: int, window: tuple[float, float, float, float] = WHOLE) -> Array:
    """Relative boxes (rows x columns, 4) of cells that tile `window`, row by row.

    >>> tile(1, 2).tolist()
    [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
    """
    left, top, right, bottom = window
    x, y = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
    y1, x1 = np.meshgrid(y[:-1], x[:-1], indexing="ij")
    y2, x2 = np.meshgrid(y[1:], x[1:], indexing="ij")
    return np.stack([x1, y1, x2, y2], -1).reshape(-1, 4)
