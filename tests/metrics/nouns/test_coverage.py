from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from captrial.metrics import Corpus
from captrial.metrics.nouns.coverage import coverage

GIVEN = {frozenset(("man", "person")): 0.5, frozenset(("horse", "beach")): 0.1}


class Given:
    """Similarities from a table; 1 for equal words, otherwise 0."""

    def __init__(self, table: dict[frozenset[str], float]) -> None:
        self.table = table

    def matrix(self, words: Sequence[str], others: Sequence[str]) -> np.ndarray:
        return np.array([[1.0 if a == b else self.table.get(frozenset((a, b)), 0.0) for b in others] for a in words])


def corpus_of(rows: Sequence[tuple[str, Sequence[str]]]) -> Corpus:
    """A corpus whose every word is a noun."""
    corpus = Corpus([str(i) for i in range(len(rows))], [said for said, _ in rows], [list(refs) for _, refs in rows])
    corpus.__dict__["noun_lists"] = [text.split() for text in corpus.texts]
    return corpus


def test_coverage_assigns_each_noun_once_and_leaves_out_images_without_truth() -> None:
    rows = [("man man horse", ["person beach"]), ("man", [""]), ("", ["man"]), ("man", ["man horse", "man"])]
    scores = coverage(corpus_of(rows), similarity=Given(GIVEN))
    np.testing.assert_allclose(scores.per_image, [(0.5 + 0.1) / 2, np.nan, 0.0, 0.5])
    assert scores.corpus == pytest.approx((0.3 + 0.0 + 0.5) / 3)
    assert any("1 of 4" in note for note in scores.notes)


def test_coverage_takes_negative_similarity_as_nothing() -> None:
    similarity = Given({frozenset(("a", "x")): -0.9, frozenset(("b", "y")): 0.4})
    assert coverage(corpus_of([("a b", ["x y"])]), similarity=similarity).corpus == pytest.approx(0.2)


def test_coverage_of_given_objects() -> None:
    corpus = corpus_of([("man", ["zebra"]), ("man", ["zebra"])])
    scores = coverage(corpus, similarity=Given(GIVEN), objects={"0": ["person", "horse"]})
    np.testing.assert_allclose(scores.per_image, [0.25, np.nan])
