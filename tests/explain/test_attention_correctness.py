"""Maps, attention correctness and the measures beside it against their formulae, written out slowly here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from captrial.attribution.elements import grid_of
from captrial.attribution.maps import (
    bilinear,
    normalised,
    square_maps,
)
from captrial.grounding.attention_correctness import (
    area_under_curve,
    attention_correctness,
    distances,
    measure_phrase,
    pointing_game,
)
from captrial.vision.backbones.base import grid_boxes

SIDE = 6
values = st.one_of(st.just(0.0), st.floats(1e-6, 10))  # not so small that a factor makes them 0
weights = arrays.arrays(np.float64, (2, SIDE, SIDE), elements=values)
masks = arrays.arrays(np.bool_, (SIDE, SIDE)).filter(lambda mask: bool(mask.any()) and not mask.all())


def slow_auc(values: np.ndarray, mask: np.ndarray) -> float:
    wins = 0.0
    inside, outside = values[mask].tolist(), values[~mask].tolist()
    for one in inside:
        for other in outside:
            wins += 1.0 if one > other else 0.5 if one == other else 0.0
    return wins / (len(inside) * len(outside))


@given(weights, masks)
def test_measures_are_those_of_the_slow_formulae(raw: np.ndarray, mask: np.ndarray) -> None:
    maps = normalised(raw)
    beta = mask / mask.sum()
    found = distances(maps, mask)
    for number, alpha in enumerate(maps):
        share = sum(alpha[i, j] for i in range(SIDE) for j in range(SIDE) if mask[i, j])
        assert attention_correctness(maps, mask)[number] == pytest.approx(share, abs=1e-12)
        assert area_under_curve(maps, mask)[number] == pytest.approx(slow_auc(alpha, mask))
        assert found["l1"][number] == pytest.approx(-sum(map(abs, (alpha - beta).ravel())))
        assert found["l2"][number] == pytest.approx(-math.sqrt(sum(x * x for x in (alpha - beta).ravel())))
        terms = [b * math.log(b / max(a, 1e-12)) for a, b in zip(alpha.ravel(), beta.ravel(), strict=True) if b > 0]
        assert found["kl"][number] == pytest.approx(-sum(terms), abs=1e-9)


@given(weights, masks)
def test_ranges_and_complements(raw: np.ndarray, mask: np.ndarray) -> None:
    maps = normalised(raw)
    for measure in (attention_correctness, pointing_game, area_under_curve):
        inside, outside = measure(maps, mask), measure(maps, ~mask)
        assert np.all((inside >= 0) & (inside <= 1))
        assert inside + outside == pytest.approx(np.ones(2))
    assert all(np.isfinite(value).all() for value in distances(maps, mask).values())


@given(weights, masks, st.floats(0.1, 100), st.permutations(range(SIDE)))
def test_scale_and_place_do_not_matter(raw: np.ndarray, mask: np.ndarray, factor: float, order: list[int]) -> None:
    """A map counts up to a factor, and moving map and region together changes nothing."""
    before = attention_correctness(normalised(raw), mask)
    assert attention_correctness(normalised(raw * factor), mask) == pytest.approx(before)
    assert attention_correctness(normalised(raw[:, order]), mask[order]) == pytest.approx(before)


@given(masks)
def test_uniform_attention_scores_the_area(mask: np.ndarray) -> None:
    uniform = normalised(np.ones((1, SIDE, SIDE)))
    assert attention_correctness(uniform, mask)[0] == pytest.approx(mask.mean())
    assert pointing_game(uniform, mask)[0] == pytest.approx(mask.mean())
    assert area_under_curve(uniform, mask)[0] == pytest.approx(0.5)


@given(weights, masks)
def test_a_phrase_is_its_best_word_or_the_mean(raw: np.ndarray, mask: np.ndarray) -> None:
    maps = normalised(raw)
    words = attention_correctness(maps, mask)
    assert measure_phrase(maps, mask).correctness == pytest.approx(words.max())
    mean = measure_phrase(maps, mask, "mean")
    assert mean.correctness == pytest.approx(words.mean())
    assert mean.correctness == pytest.approx(attention_correctness(maps.mean(0, keepdims=True), mask)[0])


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


def test_nothing_looked_at_is_uniform_and_never_nan() -> None:
    for maps in (
        square_maps(np.zeros((2, 4)), grid_boxes(2, 2).numpy(), (2, 2), 8),
        square_maps(np.zeros((2, 0)), np.zeros((0, 4)), None, 8),
        square_maps(np.zeros((2, 1)), np.array([[0, 0, 0, 0]]), None, 8),
    ):
        assert maps == pytest.approx(np.full((2, 8, 8), 1 / 64))


def test_grids_are_told_from_regions() -> None:
    assert grid_of(grid_boxes(14, 14).half().numpy()) == (14, 14)
    assert grid_of(grid_boxes(2, 3).numpy()[::-1]) is None
    assert grid_of(np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5]])) is None
    assert grid_of(np.zeros((0, 4))) is None
