"""Eq. 7 three ways, dominance and its smoothing, unlabelled pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.compete.ranking.perron import pairwise_dominance, ranking_vector, ranking_vectors, ranks, ratios
from captrial.errors import StateError


def random_f(seed: int, size: int) -> np.ndarray:
    p = np.random.default_rng(seed).lognormal(0, 0.7, (size, size))
    return ratios(p)


def literal(f: np.ndarray, steps: int) -> np.ndarray:
    """Eq. 7 as printed, for finitely many steps."""
    total, vector = np.zeros(len(f)), np.ones(len(f))
    for _ in range(steps):
        vector = f @ vector
        vector /= vector.sum()
        total += vector
    return total / steps


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_is_the_eigenvector_and_the_limit(seed: int, size: int) -> None:
    f = random_f(seed, size)
    q = ranking_vector(f)
    values, vectors = np.linalg.eig(f)
    perron = np.abs(vectors[:, np.argmax(values.real)].real)
    np.testing.assert_allclose(q, perron / perron.sum(), rtol=1e-9)
    # the mean converges like 1 / t: twice the steps halve the distance
    near, nearer = literal(f, 2000), literal(f, 4000)
    np.testing.assert_allclose(2 * nearer - near, q, rtol=1e-9)


def test_consistent_ratios_give_back_the_strengths() -> None:
    strength = np.array([5.0, 3.0, 2.0])
    np.testing.assert_allclose(ranking_vector(strength[:, None] / strength[None, :]), strength / 10)


def test_unlabelled_pairs_are_filled_in_from_the_others() -> None:
    strength = np.array([4.0, 3.0, 2.0, 1.0])
    f = strength[:, None] / strength[None, :]
    f[0, 3] = f[3, 0] = f[1, 2] = f[2, 1] = np.nan
    np.testing.assert_allclose(ranking_vector(f), strength / 10)


def test_unconnected_models_are_an_error() -> None:
    f = np.full((4, 4), np.nan)
    f[:2, :2] = f[2:, 2:] = 1.0
    with pytest.raises(StateError, match="connect model 3 with model 1; label more images"):
        ranking_vector(f)
    with pytest.raises(StateError, match="connect blip with ours"):
        ranking_vector(f, ["ours", "git", "blip", "gpt"])


def test_ranks_of_equal_scores_follow_the_models() -> None:
    assert ranks(np.array([0.2, 0.5, 0.2, 0.1])).tolist() == [2, 1, 3, 4]
    assert ranks(np.array([[1.0, 2.0], [2.0, 1.0]])).tolist() == [[2, 1], [1, 2]]


def test_dominance_without_zeros_is_a_plain_ratio() -> None:
    found = pairwise_dominance(np.array([[np.nan, 0.6], [0.3, np.nan]]))
    assert found.added == 0
    np.testing.assert_allclose(found.f, [[1, 2], [0.5, 1]])


def test_zeros_add_a_hundredth_of_the_smallest_positive_score_to_all() -> None:
    p = np.array([[np.nan, 0.5, 0.0], [0.2, np.nan, 0.4], [0.1, 0.3, np.nan]])
    found = pairwise_dominance(p)
    assert found.added == pytest.approx(0.001)
    np.testing.assert_allclose(found.f[0, 1], 0.501 / 0.201)
    np.testing.assert_allclose(found.f[2, 0], 0.101 / 0.001)


def test_if_nobody_scored_all_are_equal() -> None:
    p = np.zeros((3, 3))
    np.fill_diagonal(p, np.nan)
    np.testing.assert_allclose(ranking_vector(pairwise_dominance(p).f), [1 / 3] * 3)


def test_many_at_once_equals_one_by_one() -> None:
    several = np.stack([random_f(seed, 5) for seed in range(4)])
    np.testing.assert_allclose(ranking_vectors(several), [ranking_vector(f) for f in several])
