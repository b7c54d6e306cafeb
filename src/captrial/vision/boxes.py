"""Boxes in bulk: overlaps, non-maximum suppression, pooling of grid cells, and evaluation against human boxes.

`hits` and `average_precision` measure how good detected regions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from captrial.errors import InputError
from captrial.records import Box, Region

Floats = NDArray[np.float64]
Point = tuple[float, float]
TINY = 1e-12  # of an image: smaller areas are rounding


def iou_matrix(first: ArrayLike, second: ArrayLike) -> Floats:
    """Intersection over union of every box (n, 4) with every other (m, 4): (n, m); 0 for empty boxes."""
    common = common_areas(first, second)
    union = areas(first)[:, None] + areas(second)[None] - common
    return np.asarray(common / np.where(union > 0, union, 1))


def common_areas(first: ArrayLike, second: ArrayLike) -> Floats:
    """Areas of the intersection of every box (n, 4) with every other (m, 4): (n, m)."""
    return np.asarray(np.prod(np.clip(common_sides(first, second), 0, None), -1))


def common_sides(first: ArrayLike, second: ArrayLike) -> Floats:
    """Width and height (n, m, 2) of these intersections; a negative one is the gap between the boxes."""
    a, b = (np.asarray(boxes, np.float64).reshape(-1, 4) for boxes in (first, second))
    return np.asarray(np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2]))


def mask_areas(mask: NDArray[np.bool_], boxes: ArrayLike) -> Floats:
    """The area of a mask (height, width) inside every box (n, 4), boxes and areas relative to the image: (n,).

    Exact also where a box cuts through pixels: the integral of a mask is bilinear between the corners of its pixels.
    """
    height, width = mask.shape
    integral = np.pad(mask.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    corners = np.clip(np.asarray(boxes, np.float64).reshape(-1, 4), 0, 1) * [width, height, width, height]
    x1, y1, x2, y2 = corners.T

    def below(x: Floats, y: Floats) -> Floats:
        column, row = np.minimum(x.astype(int), width - 1), np.minimum(y.astype(int), height - 1)
        right, down = x - column, y - row
        above = (1 - right) * integral[row, column] + right * integral[row, column + 1]
        beneath = (1 - right) * integral[row + 1, column] + right * integral[row + 1, column + 1]
        return np.asarray((1 - down) * above + down * beneath)

    found = (below(x2, y2) - below(x1, y2) - below(x2, y1) + below(x1, y1)) / (height * width)
    return np.where(found > TINY, found, 0)


def areas(boxes: ArrayLike) -> Floats:
    """Areas of boxes (n, 4); 0 for empty ones."""
    corners = np.asarray(boxes, np.float64).reshape(-1, 4)
    return np.asarray(np.prod(np.clip(corners[:, 2:] - corners[:, :2], 0, None), -1))


def relative_boxes(
    regions: Sequence[Region], size: tuple[int, int], dtype: type[np.floating[Any]] = np.float64
) -> NDArray[Any]:
    """Boxes (n, 4) of regions in an image of (width, height), relative to it and cut off at its border."""
    boxes = np.array([region.box for region in regions], dtype).reshape(-1, 4)
    return np.clip(boxes / np.array([*size, *size], dtype), 0, 1)


def suppress(boxes: ArrayLike, scores: ArrayLike, iou: float = 0.5, labels: ArrayLike | None = None) -> list[int]:
    """Greedy non-maximum suppression: the boxes that stay, best first; equal scores: the first in input order.

    With `labels` (n,) only boxes of the same label suppress each other.

    >>> suppress([[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]], [0.5, 0.9, 0.1])
    [1, 2]
    """
    overlaps = iou_matrix(boxes, boxes) > iou
    if labels is not None:
        names = np.asarray(labels)
        overlaps &= names[:, None] == names[None]
    alive = np.ones(len(overlaps), bool)
    kept = []
    for index in np.argsort(-np.asarray(scores, np.float64), kind="stable"):
        if alive[index]:
            kept.append(int(index))
            alive &= ~overlaps[index]
    return kept


def pool_cells(elements: Tensor, cells: Tensor, boxes: Tensor) -> Tensor:
    """Mean feature inside each box: cells (b, c, d) lying at `cells` (c, 4), boxes (b, k, 4) -> (b, k, d).

    The exact area average of the piecewise constant map, so there is no sampling and every cell that a box touches has
    its share; one matrix product, differentiable in the elements. Cells that cover the whole image (a class token)
    have no place and no share. Boxes and cells are relative to the image.
    """
    placed = _area(cells) < 0.999
    if placed.any():
        elements, cells = elements[:, placed], cells[placed]
    shares = _common(cells, boxes)
    total = shares.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        row, region = torch.nonzero(total.squeeze(-1) <= 0)[0].tolist()
        raise InputError(
            f"region {region} of image {row} is empty or outside the image: {boxes[row, region].tolist()}; "
            "there is no feature to pool"
        )
    return (shares / total).to(elements) @ elements


def cell_shares(cells: Tensor, boxes: Tensor) -> Tensor:
    """Which share of each cell (c, 4) lies inside each box (b, k, 4): (b, k, c) in [0, 1]."""
    return _common(cells, boxes) / _area(cells)


def _common(cells: Tensor, boxes: Tensor) -> Tensor:
    """Areas (b, k, c) that boxes (b, k, 4) and cells (c, 4) have in common."""
    corners = torch.minimum(boxes[:, :, None, 2:], cells[None, None, :, 2:])
    sides: Tensor = (corners - torch.maximum(boxes[:, :, None, :2], cells[None, None, :, :2])).clamp(min=0)
    return sides.prod(-1)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


class ScoredBox(NamedTuple):
    """A detection of one class: in which image, where, how sure."""

    image: str
    box: Box
    score: float


def hits(point: Point, boxes: Sequence[Box]) -> bool:
    """Whether a point (x, y) lies in one of the boxes (the pointing game)."""
    x, y = point
    return any(box.x1 <= x <= box.x2 and box.y1 <= y <= box.y2 for box in boxes)


def covered_share(boxes: Sequence[Box], size: tuple[float, float], steps: int = 200) -> float:
    """The share of an image of (width, height) that the boxes cover together: the chance of pointing blindly."""
    x, y = ((np.arange(steps) + 0.5) / steps * side for side in size)
    covered = np.zeros((steps, steps), bool)
    for box in boxes:
        covered |= np.outer((y >= box.y1) & (y <= box.y2), (x >= box.x1) & (x <= box.x2))
    return float(covered.mean())


def average_precision(found: Sequence[ScoredBox], truth: dict[str, list[Box]], iou: float = 0.5) -> float:
    """Area under the interpolated precision-recall curve of one class (as PASCAL VOC since 2010).

    Detections in order of their scores each take the free box of their image that they overlap most, from `iou` on;
    one that finds none is wrong, a second one on the same box too. NaN where there is nothing to find.

    >>> truth = {"a": [Box(0, 0, 10, 10)], "b": [Box(0, 0, 10, 10)]}
    >>> average_precision([ScoredBox("a", Box(0, 0, 10, 9), 0.9), ScoredBox("b", Box(5, 5, 9, 9), 0.5)], truth)
    0.5
    """
    total = sum(map(len, truth.values()))
    if not total:
        return float("nan")
    right = _right([found[index] for index in np.argsort([-each.score for each in found], kind="stable")], truth, iou)
    gained = np.cumsum(right)
    precision = gained / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((best * right).sum() / total)


def _right(ordered: Sequence[ScoredBox], truth: dict[str, list[Box]], iou: float) -> NDArray[np.bool_]:
    taken: dict[str, set[int]] = {}
    right = np.zeros(len(ordered), bool)
    for number, each in enumerate(ordered):
        boxes = truth.get(each.image, [])
        used = taken.setdefault(each.image, set())
        free = [index for index in range(len(boxes)) if index not in used]
        overlaps = iou_matrix([each.box], _corners(boxes, free))[0] if free else np.zeros(0)
        if len(overlaps) and overlaps.max() >= iou:
            right[number] = True
            used.add(free[int(overlaps.argmax())])
    return right


def _corners(boxes: Sequence[Box], chosen: Sequence[int]) -> ArrayLike:
    return [boxes[index] for index in chosen]
