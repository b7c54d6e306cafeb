from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from captrial.metrics import Corpus
from captrial.metrics.nouns.noun_iou import noun_iou

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


def test_noun_iou() -> None:
    rows = [("man", ["man"]), ("man", ["person"]), ("man horse", ["man"]), ("man", [""]), ("", ["man"])]
    ours = noun_iou(corpus_of(rows), similarity=Given(GIVEN)).per_image
    np.testing.assert_allclose(ours, [1.0, 0.75 / 1.25, 1 / 2, 1.0, 0.0])
