"""Attention correctness against its formulae, and measured on the toy world."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attribution.toyworld_captioner import SIDE as GRID_SIDE
from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.word_maps import normalised, square_maps
from captrial.errors import DatasetError
from captrial.grounding.attention_correctness import (
    FORCED,
    AttentionResult,
    area_under_curve,
    distances,
    measure_attention,
    measure_phrase,
    pointing_game,
    share_inside,
)
from captrial.grounding.phrases import NO_REGION
from captrial.language.tokenizer import tokenize_all
from captrial.records import ImageRef, Sample

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
        assert share_inside(maps, mask)[number] == pytest.approx(share, abs=1e-12)
        assert area_under_curve(maps, mask)[number] == pytest.approx(slow_auc(alpha, mask))
        assert found["l1"][number] == pytest.approx(-sum(map(abs, (alpha - beta).ravel())))
        assert found["l2"][number] == pytest.approx(-math.sqrt(sum(x * x for x in (alpha - beta).ravel())))
        terms = [b * math.log(b / max(a, 1e-12)) for a, b in zip(alpha.ravel(), beta.ravel(), strict=True) if b > 0]
        assert found["kl"][number] == pytest.approx(-sum(terms), abs=1e-9)


@given(weights, masks)
def test_ranges_and_complements(raw: np.ndarray, mask: np.ndarray) -> None:
    maps = normalised(raw)
    for measure in (share_inside, pointing_game, area_under_curve):
        inside, outside = measure(maps, mask), measure(maps, ~mask)
        assert np.all((inside >= 0) & (inside <= 1))
        assert inside + outside == pytest.approx(np.ones(2))
    assert all(np.isfinite(value).all() for value in distances(maps, mask).values())


@given(weights, masks, st.floats(0.1, 100), st.permutations(range(SIDE)))
def test_scale_and_place_do_not_matter(raw: np.ndarray, mask: np.ndarray, factor: float, order: list[int]) -> None:
    """A map counts up to a factor, and moving map and region together changes nothing."""
    before = share_inside(normalised(raw), mask)
    assert share_inside(normalised(raw * factor), mask) == pytest.approx(before)
    assert share_inside(normalised(raw[:, order]), mask[order]) == pytest.approx(before)


@given(masks)
def test_uniform_attention_scores_the_area(mask: np.ndarray) -> None:
    uniform = normalised(np.ones((1, SIDE, SIDE)))
    assert share_inside(uniform, mask)[0] == pytest.approx(mask.mean())
    assert pointing_game(uniform, mask)[0] == pytest.approx(mask.mean())
    assert area_under_curve(uniform, mask)[0] == pytest.approx(0.5)


@given(weights, masks)
def test_a_phrase_is_its_best_word_or_the_mean(raw: np.ndarray, mask: np.ndarray) -> None:
    maps = normalised(raw)
    words = share_inside(maps, mask)
    assert measure_phrase(maps, mask).correctness == pytest.approx(words.max())
    mean = measure_phrase(maps, mask, "mean")
    assert mean.correctness == pytest.approx(words.mean())
    assert mean.correctness == pytest.approx(share_inside(maps.mean(0, keepdims=True), mask)[0])


def attributor(name: str = "implicit", seed: int = 0) -> DatasetAttributor:
    return DatasetAttributor(name, toy_checkpoint(seed=seed), ToyFeatures(), beam=2)


@pytest.fixture(scope="module")
def results() -> list[AttentionResult]:
    return [measure_attention(attributor(name, seed), toy_samples()) for name, seed in (("one", 0), ("two", 1))]


def test_forced_scores_are_those_of_the_attention(results: list[AttentionResult]) -> None:
    """A phrase's record, worked out again from the captioner's attention and the toy world's boxes."""
    score = next(score for score in results[0].scores if score.setting == FORCED)
    sample = next(sample for sample in toy_samples() if sample.id == score.image)
    words = tokenize_all([sample.captions[score.caption]])[0].split()
    phrase = next(phrase for phrase in sample.phrases[score.caption] if phrase.start == score.start)
    assert " ".join(words[phrase.start : phrase.end]) == score.text
    found = attributor().attribute([sample.id], [[words]])[0][0]
    assert found.weights.shape == (len(words), GRID_SIDE * GRID_SIDE)
    assert found.weights.sum(1) == pytest.approx(np.ones(len(words)), abs=1e-5)
    mask = np.zeros((224, 224), dtype=bool)
    for place in np.ndindex(mask.shape):
        y, x = ((step + 0.5) * 64 / 224 for step in place)
        boxes = [region.box for region in phrase.regions]
        mask[place] = any(box.x1 <= x < box.x2 and box.y1 <= y < box.y2 for box in boxes)
    maps = square_maps(found.weights[phrase.start : phrase.end], found.boxes, found.grid)
    assert score.correctness == pytest.approx(share_inside(maps, mask).max(), abs=1e-6)
    assert score.area == pytest.approx(mask.mean())


def test_everything_is_counted(results: list[AttentionResult]) -> None:
    """Every phrase of the references is measured or counted with its reason."""
    phrases = sum(len(said) for sample in toy_samples() for said in sample.phrases)
    forced = [score for score in results[0].scores if score.setting == FORCED]
    assert len(forced) + results[0].dropped[FORCED].total() == phrases
    assert results[0].dropped[FORCED][NO_REGION] > 0  # scene phrases
    assert all(0 <= score.correctness <= 1 for score in forced)


def test_results_survive_json(results: list[AttentionResult]) -> None:
    again = AttentionResult.from_dict(orjson.loads(orjson.dumps(results[0].to_dict())))
    assert again == results[0]


def test_data_without_ground_truth_is_refused() -> None:
    bare = Sample(ImageRef("7", width=9, height=9), ("a dog",))
    with pytest.raises(DatasetError, match="neither phrases with regions nor boxes"):
        measure_attention(attributor(), [bare])
    with pytest.raises(DatasetError, match="image 7 has no reference"):
        measure_attention(attributor(), [replace(bare, captions=())])
    with pytest.raises(DatasetError, match="no images"):
        measure_attention(attributor(), [])


@pytest.mark.parametrize("method", ["saliency", "guided_backprop", "integrated_gradients", "input_x_gradient"])
def test_attribution_maps_are_measured_like_attention(method: str) -> None:
    asked = DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), method, beam=1)
    words = ["a", "dog", "near", "a", "tree"]
    found = asked.attribute([toy_samples()[0].id], [[words, words[:1], []]])[0]
    assert [one.weights.shape for one in found] == [(5, 16), (1, 16), (0, 16)]
    assert found[0].grid == (GRID_SIDE, GRID_SIDE)
    assert np.all(found[0].weights >= 0)
    assert found[0].weights.any()
    result = measure_attention(asked, toy_samples()[:2], [FORCED])
    assert result.method == method
    assert all(0 <= score.correctness <= 1 for score in result.scores)
