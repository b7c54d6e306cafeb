"""Maps on the square, against slow painting and torch's upsampling, and heat maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from captrial.attribution.attribution import Attribution, tile
from captrial.attribution.word_maps import bilinear, heat, square_maps, stretch_contrast
from captrial.vision.backbones.base import grid_boxes


@settings(max_examples=25)
@given(arrays.arrays(np.float64, (1, 12), elements=st.floats(0, 1)), st.sampled_from([5, 12, 16]))
def test_upsampling_is_torchs(raw: np.ndarray, size: int) -> None:
    assume(raw.sum() > 1e-6)
    ours = square_maps(raw, grid_boxes(3, 4).numpy(), (3, 4), size)
    theirs = torch.nn.functional.interpolate(
        torch.from_numpy(raw).view(1, 1, 3, 4), size=(size, size), mode="bilinear", align_corners=False
    )[0].numpy()
    assert ours == pytest.approx(theirs / theirs.sum())
    assert ours.sum() == pytest.approx(1)


def test_one_cell_is_everywhere() -> None:
    assert bilinear(1, 4).tolist() == [[1.0]] * 4
    assert square_maps(np.ones((1, 1)), np.array([[0, 0, 1, 1]]), (1, 1), 4).sum() == pytest.approx(1)


def slow_painting(alphas: list[float], boxes: list[list[int]], size: int) -> np.ndarray:
    """Boxes in whole pixels: every pixel of box i gets alpha_i / area_i, overlaps add up."""
    canvas = np.zeros((size, size))
    for alpha, (x1, y1, x2, y2) in zip(alphas, boxes, strict=True):
        for y in range(y1, y2):
            for x in range(x1, x2):
                canvas[y, x] += alpha / ((x2 - x1) * (y2 - y1))
    return canvas


@st.composite
def pixel_boxes(draw: st.DrawFn) -> list[list[int]]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        x1, y1 = draw(st.integers(0, 6)), draw(st.integers(0, 6))
        found.append([x1, y1, draw(st.integers(x1 + 1, 8)), draw(st.integers(y1 + 1, 8))])
    return found


@given(pixel_boxes(), st.data())
def test_regions_paint_weight_by_area(boxes: list[list[int]], data: st.DataObject) -> None:
    alphas = data.draw(st.lists(st.floats(0.1, 1), min_size=len(boxes), max_size=len(boxes)))
    expected = slow_painting(alphas, boxes, 8)
    found = square_maps(np.array([alphas]), np.array(boxes) / 8, None, 8)[0]
    assert found == pytest.approx(expected / expected.sum())
    finer = square_maps(np.array([alphas]), np.array(boxes) / 8, None, 5)[0]  # pixels covered in part
    assert finer.sum() == pytest.approx(1)


def test_words_without_weight_have_uniform_maps() -> None:
    for maps in (
        square_maps(np.zeros((2, 4)), grid_boxes(2, 2).numpy(), (2, 2), 8),
        square_maps(np.zeros((2, 0)), np.zeros((0, 4)), None, 8),
        square_maps(np.zeros((2, 1)), np.array([[0, 0, 0, 0]]), None, 8),
    ):
        assert maps == pytest.approx(np.full((2, 8, 8), 1 / 64))


finite = st.floats(0, 1e3, allow_nan=False, width=32)


@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 60)), elements=finite))
def test_stretched_scores_lie_in_the_unit_interval_in_the_same_order(scores: np.ndarray) -> None:
    stretched = stretch_contrast(scores)
    assert np.all((stretched >= 0) & (stretched <= 1))
    for row, flat in zip(scores, stretched, strict=True):
        order = np.argsort(row, kind="stable")
        assert np.all(np.diff(flat[order]) >= -1e-9)
        if np.ptp(row) == 0:
            assert np.all(flat == 0.5)


def test_stretching_by_hand() -> None:
    scores = np.arange(101, dtype=float)[None]
    stretched = stretch_contrast(scores)[0]
    assert stretched[2] == 0 and stretched[98] == 1 and stretched[50] == pytest.approx(0.5)  # noqa: PT018
    outlier = np.zeros((1, 100))
    outlier[0, 7] = 1
    assert stretch_contrast(outlier)[0].tolist() == [0.5] * 7 + [1.0] + [0.5] * 92
    assert stretch_contrast(np.zeros((2, 0))).shape == (2, 0)


def test_regions_paint_their_boxes_and_what_was_cropped_away_stays_dark() -> None:
    boxes = np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]])
    assert heat(Attribution(("dog",), np.array([[0.0, 1.0]]), boxes, "attention"), 2, 4)[0, 0].tolist() == [0, 0, 1, 1]
    window = (0.25, 0.0, 0.75, 1.0)
    seen = Attribution(("dog",), np.array([[1.0, 0.0]]), tile(1, 2, window), "attention", grid=(1, 2), window=window)
    painted = heat(seen, 4, 8)[0]
    assert painted[:, :2].max() == painted[:, 6:].max() == 0
    assert painted[:, 2:4].min() > painted[:, 4:6].max()
