from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from captrial.metrics import Corpus
from captrial.metrics.nouns.chair import chair


def corpus_of(rows: Sequence[tuple[str, Sequence[str]]]) -> Corpus:
    """A corpus whose every word is a noun."""
    corpus = Corpus([str(i) for i in range(len(rows))], [said for said, _ in rows], [list(refs) for _, refs in rows])
    corpus.__dict__["noun_lists"] = [text.split() for text in corpus.texts]
    return corpus


def words_as_classes(texts: Sequence[str]) -> list[list[str]]:
    return [[word for word in text.split() if word in {"dog", "cat", "car"}] for text in texts]


def test_chair() -> None:
    corpus = corpus_of([("a dog and a cat", ["a dog"]), ("a car car", ["street"]), ("grass", ["a cat"])])
    objects = {"0": [], "1": ["car"], "2": []}
    scores = chair(corpus, objects=objects, classes=words_as_classes)
    assert scores.corpus == pytest.approx(1 / 4)  # the cat, of dog, cat, car, car
    assert scores.parts["chair_s"].corpus == pytest.approx(1 / 3)
    np.testing.assert_allclose(scores.per_image, [0.5, 0.0, np.nan])
    strict = chair(corpus, objects=objects, classes=words_as_classes, references_count=False)
    assert strict.corpus == pytest.approx(2 / 4)
