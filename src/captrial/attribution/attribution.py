"""`Attribution`, the scores of a caption's words for visual elements, and the geometry of elements and regions.

Elements are the cells, patches, pixels or regions that a captioner reads. Boxes are (n, 4) `x1 y1 x2 y2` in [0, 1],
relative to the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.attribution.region_rules import DEFAULT_RULE, region_rule
from captrial.errors import InputError
from captrial.records import Box, Region
from captrial.vision.boxes import areas, common_areas, iou_matrix, mask_areas, relative_boxes

Array = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
WHOLE = (0.0, 0.0, 1.0, 1.0)
WHOLE_AREA = 0.999
NEAR = 5e-4  # feature stores keep boxes in half precision: the distance of neighbouring numbers near 1

# Boxes of elements ----------------------------------------------------------------------------------------------------


def tile(rows: int, columns: int, window: tuple[float, float, float, float] = WHOLE) -> Array:
    """Boxes (rows x columns, 4) of cells that tile `window`, row by row.

    >>> tile(1, 2).tolist()
    [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
    """
    left, top, right, bottom = window
    x, y = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
    y1, x1 = np.meshgrid(y[:-1], x[:-1], indexing="ij")
    y2, x2 = np.meshgrid(y[1:], x[1:], indexing="ij")
    return np.stack([x1, y1, x2, y2], -1).reshape(-1, 4)


def on_image(boxes: Array, window: tuple[float, float, float, float]) -> Array:
    """Boxes (e, 4) relative to `window` as boxes relative to the whole image."""
    left, top, right, bottom = window
    found: Array = np.array([left, top] * 2) + boxes * np.array([right - left, bottom - top] * 2)
    return found


def grid_of(boxes: Array) -> tuple[int, int] | None:
    """Rows and columns if boxes (k, 4) tile the unit square row by row, else None.

    >>> grid_of(np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]]))
    (1, 2)
    """
    columns, rows = (len(np.unique(np.round(boxes[:, side], 3))) for side in (0, 1))
    if not len(boxes) or rows * columns != len(boxes):
        return None
    y, x = np.divmod(np.arange(len(boxes)), columns)
    cells = np.stack([x / columns, y / rows, (x + 1) / columns, (y + 1) / rows], 1)
    return (rows, columns) if np.allclose(boxes, cells, atol=2e-3) else None  # stores keep float16


def class_token(boxes: Array) -> NDArray[np.bool_]:
    """Which elements (k, 4) cover the whole square while all others tile it: a ViT's class token, or none."""
    whole = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) >= WHOLE_AREA
    tiled = whole.any() and not whole.all() and grid_of(boxes[~whole]) is not None
    return np.asarray(whole & tiled)


# Regions --------------------------------------------------------------------------------------------------------------


def grid_regions(rows: int, columns: int, width: int, height: int) -> list[Region]:
    """Regions that tile an image, row by row. They have no label, so they ground no noun."""
    x, y = np.linspace(0, width, columns + 1), np.linspace(0, height, rows + 1)
    return [
        Region(Box(float(x[column]), float(y[row]), float(x[column + 1]), float(y[row + 1])))
        for row in range(rows)
        for column in range(columns)
    ]


def shared_areas(elements: Array, regions: Sequence[Region], size: tuple[int, int]) -> Floats:
    """Areas (regions, elements) in common, relative to the image: of the mask a region carries, else of its box."""
    shared = common_areas(relative_boxes(regions, size), elements)
    for number, region in enumerate(regions):
        if region.mask is not None:
            shared[number] = mask_areas(region.mask, elements)
    return shared


def region_scores(
    scores: Array,
    elements: Array,
    regions: Floats,
    rule: str = DEFAULT_RULE,
    shared: Floats | None = None,
    certainty: Floats | float = 1.0,
) -> Floats:
    """(words, elements) -> (words, regions): one score a region (r, 4), by one of `REGION_RULES`.

    `shared` (r, e) are the `shared_areas` of regions with masks; by default those of boxes. Where elements are regions,
    a region that is itself one of them has what the rule compares of that element, whatever else overlaps it. A region
    outside of what the model saw (it was cropped away) scores 0. `certainty` (r,) are the detector's scores of regions,
    for the rules that take them.
    """
    chosen = region_rule(rule)
    weight = certainty if chosen.by_certainty else 1.0
    found: Floats = np.asarray(chosen.prepare(np.asarray(scores, np.float64)))
    places: Floats = np.asarray(elements, np.float64)
    if not len(places):
        return np.zeros((len(found), len(regions)))
    if chosen.by_iou is not None and grid_of(places) is None:
        return np.asarray(chosen.by_iou(found, iou_matrix(regions, places)) * weight)
    if places.shape == regions.shape and np.allclose(places, regions, rtol=0, atol=NEAR):
        return found
    shared = common_areas(regions, places) if shared is None else shared
    inside = chosen.score(found, shared / max(float(areas(places).mean()), 1e-300))
    if grid_of(places) is not None:
        return np.asarray(inside * weight)
    same = shared > 0
    for side in range(4):
        same &= np.abs(regions[:, None, side] - places[:, side]) <= NEAR
    return np.asarray(np.where(same.any(1), found[:, same.argmax(1)], inside))


def top_regions(scores: Floats) -> NDArray[np.int64]:
    """(words, regions) -> (words,): the region with the highest score, before any stretching; the first of equals."""
    if scores.shape[1] == 0:
        raise InputError("no region has a score: the image has no detection")
    return np.asarray(scores.argmax(1))


def usable_regions(elements: Array, regions: Sequence[Region], size: tuple[int, int]) -> list[Region]:
    """The regions with a label that lie, at least in part, in what the model saw at `elements` (e, 4)."""
    seen: NDArray[np.bool_] = np.asarray(shared_areas(elements, regions, size).any(1))
    return [region for number, region in enumerate(regions) if region.label and seen[number]]


def top_labels(
    scores: Array, elements: Array, regions: Sequence[Region], size: tuple[int, int], rule: str = DEFAULT_RULE
) -> list[str]:
    """The label of the top region of every word (words,); empty if the model saw no region with a label.

    `scores` (words, elements) are those of the elements at `elements` (e, 4); regions are in pixels of the image of
    `size` (width, height), and their masks count where they carry one.
    """
    usable = usable_regions(elements, regions, size)
    if not usable:
        return []
    shared = shared_areas(elements, usable, size)
    boxes, certainty = relative_boxes(usable, size), np.array([region.score for region in usable])
    best = top_regions(region_scores(scores, elements, boxes, rule, shared, certainty))
    return [str(usable[number].label) for number in best]


@dataclass(frozen=True, eq=False)
class Attribution:
    """One method's scores of `e` visual elements (regions, cells, patches or pixels) for the `w` words of a caption.

    Regions are ranked by `scores`: |A| summed over feature dimensions or colour channels, or attention weights. Scores
    are never NaN; an image without elements has `e = 0`.
    """

    words: tuple[str, ...]
    scores: Array  # (w, e), >= 0
    boxes: Array  # (e, 4) x1 y1 x2 y2 relative to the whole image, in [0, 1]
    method: str
    signed: Array | None = None  # (w, e): A summed over dimensions; negative is evidence against the word
    grid: tuple[int, int] | None = None  # rows, columns if the elements tile `window`, row by row
    window: tuple[float, float, float, float] = WHOLE  # the part of the image the model saw, relative to the image
    changes: Array | None = None  # (w,): S(image) - S(baseline), the sum that integrated gradients should reach
    errors: Array | None = None  # (w,): numerical error, for methods that claim completeness
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
        """The largest numerical error of a word."""
        return None if self.errors is None or not len(self.errors) else float(self.errors.max())

    def maps(self) -> Array:
        """The scores as images, (w, rows, columns); an `InputError` if the elements are not a grid."""
        if self.grid is None:
            raise InputError(f"{self.method}: these are scores of {len(self.boxes)} boxes, not of a grid")
        return self.scores.reshape(len(self.words), *self.grid)

    def without_class_token(self) -> Attribution:
        """Only the cells of a ViT: its class token has no place on a map."""
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
