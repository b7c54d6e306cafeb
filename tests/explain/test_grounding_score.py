"""Regions, GroundingScore and verdicts against their formulae, written out slowly here."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from captrial.attribution.elements import (
    grid_regions,
    region_scores,
    relative_boxes,
    top_labels,
    top_regions,
)
from captrial.attribution.maps import stretch_contrast
from captrial.errors import InputError
from captrial.grounding.score import (
    DELTAS,
    CaptionGrounding,
    Grounder,
    Verdict,
    grounding_threshold,
)
from captrial.language.similarity import Similarity
from captrial.records import Box, Region

WORDS = ("dog", "puppy", "cat", "car", "person", "man", "table", "sky", "qxqz", "teddy bear")
LABELS = ("dog", "cat", "car", "person", "table", "bicycle")
finite = st.floats(0, 1e3, allow_nan=False, width=32)


@st.composite
def captions(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, str]], list[str]]:
    """Words, nouns by position, and the class looked at with every word."""
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
    places = draw(st.sets(st.integers(0, len(words) - 1)))
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=len(words), max_size=len(words)))
    return words, [(place, words[place]) for place in sorted(places)], labels


def slow_score(nouns: list[tuple[int, str]], labels: list[str], delta: float) -> float | None:
    """Eq. 13, as it is written: a mean over nouns of a maximum over the steps [t - delta, t]."""
    similarity = Similarity.default()
    total, count = 0.0, 0
    for t, word in nouns:
        best = -math.inf
        for tau in range(len(labels)):
            if t - delta <= tau <= t:
                best = max(best, similarity.sim(word, labels[tau]))
        total, count = total + best, count + 1
    return total / count if count else None


def slow_verdict(t: int, word: str, labels: list[str], tau_g: float) -> str:
    similarity = Similarity.default()
    if similarity.sim(word, labels[t]) >= tau_g:
        return "grounded"
    if any(similarity.sim(word, labels[tau]) >= tau_g for tau in range(t)):
        return "grounded early"
    if all(similarity.sim(word, label) < tau_g for label in LABELS):
        return "not checkable"
    return "hallucinated"


@given(captions(), st.sampled_from([*DELTAS, 2, 7]))
def test_score_is_that_of_the_slow_formula(
    caption: tuple[list[str], list[tuple[int, str]], list[str]], delta: float
) -> None:
    words, nouns, labels = caption
    grounding = Grounder(LABELS, threshold=0.9).ground(words, nouns, labels)
    expected = slow_score(nouns, labels, delta)
    assert grounding.score(delta) == (None if expected is None else pytest.approx(expected))
    for noun, (t, word) in zip(grounding.nouns, nouns, strict=True):
        assert noun.verdict == slow_verdict(t, word, labels, 0.9)


@given(captions())
def test_score_lies_in_range_and_never_falls_with_delta(
    caption: tuple[list[str], list[tuple[int, str]], list[str]],
) -> None:
    grounding = Grounder(LABELS, threshold=0.9).ground(*caption)
    scores = [score for score in grounding.scores() if score is not None]
    assert len(scores) == (len(DELTAS) if caption[1] else 0)
    assert all(-1 - 1e-6 <= score <= 1 + 1e-6 for score in scores)
    assert all(first <= second + 1e-12 for first, second in pairwise(scores))


@given(captions())
def test_what_is_looked_at_later_does_not_count(caption: tuple[list[str], list[tuple[int, str]], list[str]]) -> None:
    words, nouns, labels = caption
    grounder = Grounder(LABELS, threshold=0.9)
    if nouns:
        last = nouns[-1][0]
        other = labels[: last + 1] + ["bicycle"] * (len(labels) - last - 1)
        assert grounder.ground(words, nouns, labels).scores() == grounder.ground(words, nouns, other).scores()


def test_the_four_verdicts() -> None:
    grounder = Grounder(LABELS, threshold=0.9)
    words = ["a", "puppy", "and", "a", "cat", "with", "a", "car", "sky"]
    labels = ["dog", "dog", "cat", "dog", "dog", "dog", "dog", "dog", "dog"]
    found = grounder.ground(words, [(1, "puppy"), (4, "cat"), (7, "car"), (8, "sky")], labels)
    assert [noun.verdict for noun in found.nouns] == [
        Verdict.GROUNDED, Verdict.EARLY, Verdict.HALLUCINATED, Verdict.UNCHECKABLE,
    ]  # fmt: skip
    score, of_checkable = found.score(0), found.score(0, checkable=True)
    assert score is not None
    assert of_checkable is not None
    assert found.nouns[1].at(1) < 0.9 <= found.nouns[1].at(2)
    assert of_checkable == pytest.approx(np.mean([noun.at(0) for noun in found.nouns[:3]]))


def test_nothing_to_score_is_none_with_a_reason() -> None:
    grounder = Grounder(LABELS, threshold=0.9)
    no_noun = grounder.ground(["running"], [], ["dog"])
    no_region = grounder.ground(["a", "dog"], [(1, "dog")], [])
    assert no_noun.scores() == no_region.scores() == [None] * 5
    assert no_noun.problem == "the caption has no noun"
    assert no_region.problem == "the image has no region with a label"
    assert CaptionGrounding((), (), ()).problem == "the caption is empty"
    one_word = grounder.ground(["dog"], [(0, "dog")], ["dog"])
    assert one_word.scores() == [1.0] * 5
    assert one_word.problem is None


def test_names_of_several_words_are_one_noun_unless_vectors_alone_decide() -> None:
    text = ["A teddy bear on a sofa."]
    assert Grounder(LABELS).nouns(text) == [[(2, "teddy bear"), (5, "sofa")]]
    alone = Grounder(LABELS, Similarity(mode="vectors"))
    assert alone.nouns(text) == [[(1, "teddy"), (2, "bear"), (5, "sofa")]]


def test_the_threshold_is_calibrated_and_printed() -> None:
    similarity = Similarity.default()
    threshold = grounding_threshold(similarity)
    assert similarity.sim("dog", "cat") < threshold <= similarity.sim("puppy", "dog")
    grounder = Grounder(LABELS)
    assert f"tau_g {threshold:.3g} (calibrated on the toy world); 6 region labels" in grounder.description
    assert "tau_g 0.5 (given)" in Grounder(LABELS, threshold=0.5).description


# regions ------------------------------------------------------------------------------------------------------------


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
    cells = relative_boxes(grid_regions(3, 3, 12, 12), 12, 12)
    expected = slow_mean_inside(scores[0], cells, box[0], 24)
    assert region_scores(scores, cells, box)[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


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


def test_no_region_is_said() -> None:
    with pytest.raises(InputError, match="no detection"):
        top_regions(np.zeros((3, 0)))
    regions = (Region(Box(0, 0, 5, 5)), Region(Box(0, 0, 2, 2), "dog"))
    for elements, labels in (([[0, 0, 1, 1]], ["dog"]), ([[0.5, 0.5, 1, 1]], []), (np.zeros((0, 4)), [])):
        assert top_labels(np.ones((1, len(elements))), np.array(elements, float), regions, 10, 10) == labels
