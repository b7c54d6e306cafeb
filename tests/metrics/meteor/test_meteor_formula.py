from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captrial.metrics.meteor import meteor_corpus, meteor_scores
from captrial.metrics.meteor.meteor import additive

# "a dog runs fast" against "the dog runs": dog and runs match exactly, one chunk; "a" and "the" are function words.
HALF = [4, 3, 1, 1, 2, 2, 0, 0, *[0] * 12, 1, 2, 2]
WHOLE = [3, 3, 1, 1, 2, 2, 1, 1, *[0] * 12, 1, 3, 3]
NOTHING = [4, 3, 1, 1, *[0] * 19]


def test_formula_by_hand() -> None:
    precision, recall = 0.75 * 2 / (0.75 * 3 + 0.25), 0.75 * 2 / (0.75 * 2 + 0.25)  # 0.6, 0.857142...
    f_mean = 1 / (0.15 / precision + 0.85 / recall)
    expected = f_mean * (1 - 0.6 * (1 / 2) ** 0.2)
    assert meteor_scores(np.array([HALF]))[0] == pytest.approx(expected, abs=1e-15)
    assert expected == pytest.approx(0.384700, abs=1e-6)


def test_modules_have_their_weights() -> None:
    scores = []
    for module in range(4):
        row = [2, 2, 0, 0, *[0] * 16, 1, 1, 1]
        row[4 + 4 * module] = row[5 + 4 * module] = 1
        scores.append(meteor_scores(np.array([row]))[0])
    assert np.array(scores) / scores[0] == pytest.approx([1, 0.6, 0.8, 0.6])


def test_whole_segments_have_no_penalty_and_empty_ones_no_score() -> None:
    assert meteor_scores(np.array([WHOLE, NOTHING, [0] * 23])).tolist() == [1.0, 0.0, 0.0]


def test_corpus_is_the_score_of_sums_without_the_chunks_of_whole_segments() -> None:
    stats = np.array([HALF, WHOLE, NOTHING])
    total = np.sum([HALF, WHOLE, NOTHING], axis=0)
    total[20] -= 1
    assert meteor_corpus(stats) == meteor_scores(total[None])[0]
    assert meteor_corpus(stats) != pytest.approx(meteor_scores(stats).mean(), abs=1e-3)
    assert meteor_corpus(np.empty((0, 23), int)) == 0.0


def test_any_shape() -> None:
    stats = np.array([HALF, WHOLE, NOTHING, HALF]).reshape(2, 2, 23)
    assert meteor_scores(stats).tolist() == meteor_scores(stats.reshape(4, 23)).reshape(2, 2).tolist()


@given(arrays(np.int64, (5, 23), elements=st.integers(0, 50)))
def test_never_nan_nor_negative(stats: np.ndarray) -> None:
    scores = meteor_scores(stats)
    assert np.all(np.isfinite(scores))
    assert np.all(scores >= 0)
    assert np.all(additive(stats) <= stats)
