from __future__ import annotations

import numpy as np
import pytest

from captrial.metrics.nouns.coverage import coverage
from metrics.example_corpora import GIVEN, GivenSimilarity, noun_corpus


def test_coverage_assigns_each_noun_once_and_leaves_out_images_without_truth() -> None:
    rows = [("man man horse", ["person beach"]), ("man", [""]), ("", ["man"]), ("man", ["man horse", "man"])]
    scores = coverage(noun_corpus(rows), similarity=GivenSimilarity(GIVEN))
    np.testing.assert_allclose(scores.per_image, [(0.5 + 0.1) / 2, np.nan, 0.0, 0.75])  # mean of references: 0.5 and 1
    assert scores.corpus == pytest.approx((0.3 + 0.0 + 0.75) / 3)
    union = coverage(noun_corpus(rows), similarity=GivenSimilarity(GIVEN), union=True)
    np.testing.assert_allclose(union.per_image, [0.3, np.nan, 0.0, 0.5])
    assert any("1 of 4" in note for note in scores.notes)


def test_coverage_takes_negative_similarity_as_nothing() -> None:
    similarity = GivenSimilarity({frozenset(("a", "x")): -0.9, frozenset(("b", "y")): 0.4})
    assert coverage(noun_corpus([("a b", ["x y"])]), similarity=similarity).corpus == pytest.approx(0.2)


def test_coverage_of_given_objects() -> None:
    corpus = noun_corpus([("man", ["zebra"]), ("man", ["zebra"])])
    scores = coverage(corpus, similarity=GivenSimilarity(GIVEN), objects={"0": ["person", "horse"]})
    np.testing.assert_allclose(scores.per_image, [0.25, np.nan])
