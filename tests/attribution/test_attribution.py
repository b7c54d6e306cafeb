"""Scores of regions from scores of elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from captrial.attribution.attribution import grid_of, grid_regions, region_scores, tile, top_labels, top_regions
from captrial.errors import InputError
from captrial.records import Box, Region
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.boxes import relative_boxes


def test_grids_are_told_from_regions() -> None:
    assert grid_of(grid_boxes(14, 14).half().numpy()) == (14, 14)
    assert grid_of(grid_boxes(2, 3).numpy()[::-1]) is None
    assert grid_of(np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5]])) is None
    assert grid_of(np.zeros((0, 4))) is None


finite = st.floats(0, 1e3, allow_nan=False, width=32)


def slow_mean_inside(scores: np.ndarray, elements: np.ndarray, box: np.ndarray, side: int) -> float:
    """Average over points of a fine lattice inside the box, each with the score of the cell it lies in."""
    total, count = 0.0, 0
    for i in range(side):
        for j in range(side):
            x, y = (j + 0.5) / side, (i + 0.5) / side
            if not (box[0] <= x < box[2] and box[1] <= y < box[3]):
                continue
            for score, cell in zip(scores, elements, strict=True):
                if cell[0] <= x < cell[2] and cell[1] <= y < cell[3]:
                    total, count = total + score, count + 1
    return total / count


@settings(max_examples=30)
@given(
    arrays.arrays(np.float64, (1, 9), elements=finite),
    st.lists(st.integers(0, 12), min_size=4, max_size=4).filter(lambda b: b[0] != b[2] and b[1] != b[3]),
)
def test_a_region_has_the_mean_inside_it(scores: np.ndarray, corners: list[int]) -> None:
    x1, y1, x2, y2 = corners
    box = np.array([[min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)]]) / 12
    cells = relative_boxes(grid_regions(3, 3, 12, 12), (12, 12))
    expected = slow_mean_inside(scores[0], cells, box[0], 24)
    assert region_scores(scores, cells, box, "mean")[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_regions_that_are_the_elements_keep_their_scores() -> None:
    boxes = np.array([[0, 0, 0.5, 0.5], [0.2, 0.2, 0.9, 0.9]])
    scores = np.array([[3.0, 1.0]])
    assert region_scores(scores, boxes, boxes).tolist() == scores.tolist()
    assert region_scores(scores, boxes, boxes[::-1]).tolist() == [[1.0, 3.0]]
    assert region_scores(scores, boxes, boxes[1:]).tolist() == [[1.0]]  # the one without a label was left out
    whole = np.concatenate([[[0, 0, 1, 1]], boxes]).astype(np.float16)  # as a store keeps them, the image before them
    assert region_scores(np.array([[9.0, *scores[0]]]), whole, boxes + 1e-4).tolist() == [[3.0, 1.0]]
    assert region_scores(scores, boxes, boxes[[0, 0]]).tolist() == [[3.0, 3.0]]
    assert region_scores(scores, boxes, np.array([[0.95, 0.95, 1, 1]])).tolist() == [[0.0]]  # unseen


@given(arrays.arrays(np.float64, (2, 5), elements=finite))
def test_the_top_region_is_the_first_of_the_highest(scores: np.ndarray) -> None:
    for row, top in zip(scores.tolist(), top_regions(scores), strict=True):
        assert row[top] == max(row)
        assert max(row) not in row[:top]


def test_masks_of_regions_count_in_place_of_their_boxes() -> None:
    """Two regions with the same box: the upper half of the image and its lower half."""
    upper = np.zeros((8, 8), bool)
    upper[:4] = True
    whole = Box(0, 0, 8, 8)
    regions = [Region(whole, "sky", mask=upper), Region(whole, "sea", mask=~upper), Region(whole, "all")]
    cells = tile(4, 4)
    low, high = np.zeros((4, 4)), np.zeros((4, 4))
    low[3, 1] = high[0, 2] = 1
    scores = np.stack([low.ravel(), high.ravel()])
    assert top_labels(scores, cells, regions, (8, 8), "mean") == ["sea", "sky"]
    boxes = [Region(region.box, region.label) for region in regions]
    assert top_labels(scores, cells, boxes, (8, 8), "mean") == ["sky", "sky"]  # the first of equals
    assert top_labels(scores[:, 8:], cells[8:], regions[:1], (8, 8)) == []  # the model saw the lower half alone


def test_images_without_usable_regions() -> None:
    with pytest.raises(InputError, match="no detection"):
        top_regions(np.zeros((3, 0)))
    regions = (Region(Box(0, 0, 5, 5)), Region(Box(0, 0, 2, 2), "dog"))
    for elements, labels in (([[0, 0, 1, 1]], ["dog"]), ([[0.5, 0.5, 1, 1]], []), (np.zeros((0, 4)), [])):
        assert top_labels(np.ones((1, len(elements))), np.array(elements, float), regions, (10, 10)) == labels
