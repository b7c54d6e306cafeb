"""How good regions are, against human boxes: pointing accuracy, and average precision at an overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from captrial.records import Box
from captrial.vision.boxes import iou_matrix

Point = tuple[float, float]


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
