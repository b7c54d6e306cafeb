from __future__ import annotations

import numpy as np

from captrial.metrics.ngram.cider import cider, cider_plain
from metrics.example_corpora import corpus_of


def test_plain_cider_is_a_cosine_without_clipping_or_damping() -> None:
    corpus = corpus_of([("dog dog dog", ["dog"]), ("cat", ["cat sits"])])
    scores = cider_plain(corpus)
    # one n-gram in common and nothing else at order 1: the cosine is 1 for any count, and 1 / sqrt(2) for the second
    np.testing.assert_allclose(scores.per_image, [10 / 4, 10 / 4 / np.sqrt(2)])
    assert (cider(corpus).per_image <= scores.per_image + 1e-12).all()


def test_cider_of_one_image_is_zero_and_says_so() -> None:
    scores = cider(corpus_of([("a dog", ["a dog"])]))
    assert scores.corpus == 0
    assert "one image" in scores.notes[0]
