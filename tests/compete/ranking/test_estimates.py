"""The pool's means from a sample: unbiased, exact when all is labelled, and intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.ranking.estimates import PoolSample, pool_estimate
from captrial.compete.ranking.intervals import uncertainty
from captrial.compete.selection.design import SampleOrder, rates

SIZE, MODELS = 1500, 4


def world(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Skewed scores (images, models) of a pool that depend on an agreement known without labels."""
    generator = np.random.default_rng(seed)
    agreement = generator.beta(2, 2, (SIZE, 1)) * generator.uniform(0.6, 1.0, (SIZE, MODELS))
    scores = generator.gamma(2.5, 0.05 + agreement) * np.array([1.0, 0.95, 0.8, 0.5])
    return scores, agreement


def drawn(agreement: np.ndarray, seed: int, count: int, weighted: bool) -> tuple[np.ndarray, PoolSample]:
    rate = rates(agreement) if weighted else np.ones(SIZE)
    order = SampleOrder([str(row) for row in range(SIZE)], seed, [(rate, count)])
    rows, chance = order.rows[:count], order.probabilities(count)
    means = float(rate.mean()), agreement.mean(axis=0)
    return rows, PoolSample(chance[rows], rate[rows], agreement[rows], *means, SIZE)


def test_all_labels_give_the_mean_and_no_uncertainty() -> None:
    scores, agreement = world()
    rows, sample = drawn(agreement, 0, SIZE, True)
    found = pool_estimate(scores[rows], sample)
    np.testing.assert_allclose(found.value, scores.mean(axis=0), rtol=1e-9)
    assert sample.complete
    assert np.abs(found.terms).max() == 0
    assert np.abs(pool_estimate(scores[rows], sample, finite=False).terms).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_are_unbiased_and_intervals_cover(weighted: bool) -> None:
    scores, agreement = world()
    truth = scores.mean(axis=0)
    errors, covered, apart = [], [], []
    for seed in range(600):
        rows, sample = drawn(agreement, seed, 30, weighted)
        found = pool_estimate(scores[rows], sample)
        bounds = uncertainty(found)
        errors.append(found.value - truth)
        covered.append((bounds.low <= truth) & (truth <= bounds.high))
        gap = truth[0] - truth[1]
        apart.append(bounds.difference_low[0, 1] <= gap <= bounds.difference_high[0, 1])
    off = np.mean(errors, axis=0) / (np.std(errors, axis=0) / np.sqrt(600))
    assert np.abs(off).max() < 3.5
    assert 0.91 <= np.mean(covered) <= 0.985
    assert 0.92 <= np.mean(apart) <= 0.985


def test_control_variates_reduce_the_error() -> None:
    scores, agreement = world()
    truth = scores.mean(axis=0)
    plain, adjusted = [], []
    for seed in range(200):
        rows, sample = drawn(agreement, seed, 60, False)
        plain.append(scores[rows].mean(axis=0) - truth)
        adjusted.append(pool_estimate(scores[rows], sample).value - truth)
    assert np.var(adjusted) < 0.95 * np.var(plain)


def test_a_model_that_scores_almost_nothing_has_no_interval() -> None:
    scores, agreement = world()
    scores[:, 3] = 0.0
    rows, sample = drawn(agreement, 0, 20, False)
    scores[rows[0], 3] = 0.1  # one image is all of its score
    found = uncertainty(pool_estimate(scores[rows], sample))
    assert np.isnan(found.low).tolist() == [False, False, False, True]
    assert found.rank_low[3] == 4  # that it is last is known all the same


def test_labels_of_d_do_not_stand_in_for_a_sample() -> None:
    scores, agreement = world()
    for sampled, given in ((8, False), (9, True)):
        rows = np.arange(sampled + 4)
        chance = np.where(rows < sampled, 0.01, 1.0)  # the last four were selected: certain to be labelled
        every = np.ones(len(rows))
        sample = PoolSample(chance, every, agreement[rows], 1.0, agreement.mean(axis=0), len(scores))
        found = uncertainty(pool_estimate(scores[rows], sample))
        assert (found.ranked, bool(found.given.all()), bool(np.isnan(found.low).any())) == (given, given, not given)
