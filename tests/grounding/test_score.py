"""GroundingScore and verdicts against their formulae, written out slowly here."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captrial.grounding
from captrial.grounding.score import (
    DELTAS,
    CaptionGrounding,
    Grounder,
    Verdict,
    calibrate_threshold,
    grounding_threshold,
)
from captrial.language.similarity import Similarity
from captrial.language.vectors import WordVectors
from studies.grounding_threshold import calibrated_thresholds, calibration_words

WORDS = ("dog", "puppy", "cat", "car", "person", "man", "table", "sky", "qxqz", "teddy bear")


LABELS = ("dog", "cat", "car", "person", "table", "bicycle")


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
    if any(similarity.sim(word, labels[tau]) >= tau_g for tau in range(t, len(labels))):
        return "there, but not looked at"
    if all(similarity.sim(word, label) < tau_g for label in LABELS):
        return "not checkable"
    return "not in the image"


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
def test_regions_after_the_noun_do_not_count(caption: tuple[list[str], list[tuple[int, str]], list[str]]) -> None:
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
        Verdict.GROUNDED, Verdict.EARLY, Verdict.NOT_IN_IMAGE, Verdict.UNCHECKABLE,
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


def test_stored_thresholds_are_those_of_the_toy_world() -> None:
    document = orjson.loads((Path(captrial.grounding.__file__).parent / "thresholds.json").read_bytes())
    assert document == {**calibration_words(), "thresholds": calibrated_thresholds()}


def test_other_vectors_are_calibrated_on_the_stored_nouns(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = Similarity(WordVectors.open(components=None), mode="vectors")
    assert 0 < grounding_threshold(raw) < 1
    assert grounding_threshold(raw) != grounding_threshold(Similarity(mode="vectors"))
    assert grounding_threshold(raw) == calibrate_threshold(raw)


def test_grounding_imports_no_toy_world() -> None:
    code = """
import sys
from captrial.grounding.score import Grounder
assert Grounder(["dog"]).threshold == 0.947
assert not [name for name in sys.modules if name.startswith("captrial.toyworld")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
