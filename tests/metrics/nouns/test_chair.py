from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from captrial.metrics.nouns.chair import chair
from metrics.example_corpora import noun_corpus


def words_as_classes(texts: Sequence[str]) -> list[list[str]]:
    return [[word for word in text.split() if word in {"dog", "cat", "car"}] for text in texts]


def test_chair() -> None:
    corpus = noun_corpus([("a dog and a cat", ["a dog"]), ("a car car", ["street"]), ("grass", ["a cat"])])
    objects = {"0": [], "1": ["car"], "2": []}
    scores = chair(corpus, objects=objects, classes=words_as_classes)
    assert scores.corpus == pytest.approx(1 / 4)  # the cat, of dog, cat, car, car
    assert scores.parts["chair_s"].corpus == pytest.approx(1 / 3)
    np.testing.assert_allclose(scores.per_image, [0.5, 0.0, np.nan])
    strict = chair(corpus, objects=objects, classes=words_as_classes, references_count=False)
    assert strict.corpus == pytest.approx(2 / 4)
