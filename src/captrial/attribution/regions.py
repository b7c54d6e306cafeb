"""From visual elements to regions: one score a region and word, the top region, contrast for display.

Elements are cells, patches, pixels or regions themselves; boxes are relative to the image, (n, 4) in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError
from captrial.records import Box, Region

Floats = NDArray[np.float64]
LOW, HIGH = 2, 98  # percentiles of contrast stretching
NEAR = 5e-4  # stores keep boxes in half precision: between neighbouring numbers near 1


def overlaps(regions: Floats, elements: Floats) -> Floats:
    """Areas (regions, elements) of what every region and element share."""
    sides = [
        np.minimum(regions[:, None, high], elements[None, :, high])
        - np.maximum(regions[:, None, low], elements[None, :, low])
        for low, high in ((0, 2), (1, 3))
    ]
    return np.asarray(np.maximum(sides[0], 0) * np.maximum(sides[1], 0))


def region_scores(scores: NDArray[np.floating], elements: NDArray[np.floating], regions: Floats) -> Floats:
    """(words, elements) -> (words, regions): the mean of the scores inside each region, by area.

    A region that is one of the elements has that element's own score: what else lies over it is
    not mixed in. One that the model did not see at all (it was cropped away) scores 0.
    """
    found: Floats = np.asarray(scores, np.float64)
    places: Floats = np.asarray(elements, np.float64)
    if places.shape == regions.shape and np.allclose(places, regions, rtol=0, atol=NEAR):
        return found
    shared = overlaps(regions, places)
    means = found @ (shared / np.maximum(shared.sum(1, keepdims=True), 1e-300)).T
    same = shared > 0
    for side in range(4):
        same &= np.abs(regions[:, None, side] - places[:, side]) <= NEAR
    return np.asarray(np.where(same.any(1), found[:, same.argmax(1)], means) if places.size else means)


def top_regions(scores: Floats) -> NDArray[np.int64]:
    """(words, regions) -> (words,): the region with the highest score, before any stretching; of equals the first."""
    if scores.shape[1] == 0:
        raise InputError("no region to look at: the image has no detection")
    return np.asarray(scores.argmax(1))


def stretch_contrast(scores: NDArray[np.floating]) -> Floats:
    """Each row scaled so that its percentiles 2 and 98 become 0 and 1, clipped to [0, 1]: for display.

    A row of equal scores is 0.5 throughout; where only outliers differ, they are 0 or 1 and the rest 0.5.

    >>> stretch_contrast(np.array([[3.0, 3.0, 3.0]])).tolist()
    [[0.5, 0.5, 0.5]]
    """
    values: Floats = np.asarray(scores, np.float64)
    if not values.size:
        return values
    low, high = np.percentile(values, [LOW, HIGH], axis=-1, keepdims=True)
    span = high - low
    flat = span <= 1e-12 * np.maximum(np.abs(high), np.abs(low))
    scaled = np.clip((values - low) / np.where(flat, 1, span), 0, 1)
    outliers = np.where(np.isclose(values, low, rtol=1e-9, atol=0), 0, np.sign(values - low))
    return np.where(flat, 0.5 + 0.5 * outliers, scaled)


def relative_boxes(regions: Sequence[Region], width: int, height: int) -> Floats:
    """The regions' boxes (n, 4) relative to an image of that size, clipped to it."""
    boxes = np.array([region.box for region in regions], np.float64).reshape(-1, 4)
    return np.clip(boxes / np.array([width, height, width, height], np.float64), 0, 1)


def top_labels(
    scores: NDArray[np.floating], elements: NDArray[np.floating], regions: Sequence[Region], width: int, height: int
) -> list[str]:
    """The label of the top region at every word (words,); empty where no region with a label was seen.

    Scores (words, elements) are those of the elements that the model saw; regions are in pixels of the image.
    """
    boxes = relative_boxes(regions, width, height)
    seen: NDArray[np.bool_] = np.asarray(overlaps(boxes, np.asarray(elements, np.float64)).any(1))
    usable = [number for number, region in enumerate(regions) if region.label and seen[number]]
    if not usable:
        return []
    best = top_regions(region_scores(scores, elements, boxes)[:, usable])
    return [str(regions[usable[number]].label) for number in best]


def grid_regions(rows: int, columns: int, width: int, height: int) -> list[Region]:
    """Regions that tile an image, row by row; without labels, so for looking and not for grounding."""
    x, y = np.linspace(0, width, columns + 1), np.linspace(0, height, rows + 1)
    return [
        Region(Box(float(x[column]), float(y[row]), float(x[column + 1]), float(y[row + 1])))
        for row in range(rows)
        for column in range(columns)
    ]
