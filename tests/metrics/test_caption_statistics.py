"""Repetition, length, vocabulary, distinct and new captions."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.metrics import Corpus
from captrial.metrics.caption_statistics import StatisticsState, repeated_words, repetition

CORPUS = Corpus(
    list("1234"),
    ["a dog dog dog runs", "", "a dog dog", "dog dog dog dog"],
    [["dog dog dog"], ["x"], ["dog"], ["dog"]],
)


def test_repetition_never_crosses_captions() -> None:
    scores = repetition(CORPUS)
    np.testing.assert_array_equal(scores.per_image, [1, 0, 0, 1])
    assert scores.corpus == 0.5
    assert repeated_words(CORPUS) == [(0, "dog", 3), (3, "dog", 4)]
    assert repetition(CORPUS, in_a_row=4).corpus == 0.25


def test_statistics() -> None:
    corpus = Corpus(list("123"), ["a dog runs", "a dog runs", "the cat"], [["x"]] * 3)
    scores = StatisticsState.of(corpus).scores()
    assert scores.corpus == pytest.approx(8 / 3)
    assert scores.parts["vocabulary"].corpus == 5
    assert scores.parts["distinct"].corpus == pytest.approx(2 / 3)
    assert "novelty" not in scores.parts


def test_novelty_and_shards() -> None:
    corpus = Corpus(list("123"), ["a dog runs", "a dog runs", "the cat"], [["x"]] * 3)
    novel = np.array([0.0, 0.0, 1.0])
    whole = StatisticsState(corpus.candidates, novel)
    halves = [StatisticsState(corpus.candidates[:1], novel[:1]), StatisticsState(corpus.candidates[1:], novel[1:])]
    merged = StatisticsState.merge(halves).scores()
    assert merged.parts["novelty"].corpus == pytest.approx(1 / 3)
    for part in whole.scores().flat():
        other = {score.name: score for score in merged.flat()}[part.name]
        assert other.corpus == part.corpus
        np.testing.assert_array_equal(other.per_image, part.per_image)
