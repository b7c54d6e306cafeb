"""The stop must keep its word at any time, be sure of clear winners soon, and know ties."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.analysis.planner import (
    DrawnLabels,
    PlanSettings,
    excluded,
    plan_labels,
    pool_means,
    unbiased_terms,
)
from captrial.compete.selection.design import SampleOrder
from captrial.errors import InputError

NAMES = ("first", "second", "third")


def drawn(
    pool: np.ndarray, seed: int, count: int, rates: np.ndarray | None = None, known: np.ndarray | None = None
) -> DrawnLabels:
    """The first images of a sample's order; `known` (images, m) is what the control variates may use."""
    rate = np.ones(len(pool)) if rates is None else rates
    order = SampleOrder([str(row) for row in range(len(pool))], seed, [(rate, count)])
    rows = order.rows[:count]
    agreement = None if known is None else (known - known.mean(axis=0))[rows]
    return DrawnLabels(pool[rows], *order.draws(count), len(pool), agreement)


def test_a_clear_winner_is_settled_and_an_open_comparison_named() -> None:
    generator = np.random.default_rng(0)
    pool = generator.gamma(2.0, 0.5, (2000, 3)) + np.array([1.0, 0.0, 0.97])
    found = plan_labels(NAMES, drawn(pool, 1, 60))
    assert found.winner in ("first", "third")
    assert not found.settled
    assert {found.open[0].ahead, found.open[0].behind} == {"first", "third"}
    assert set(found.contenders) == {"first", "third"}
    assert found.labels_needed is not None
    assert found.labels_needed > 100
    clear = plan_labels(NAMES[:2], drawn(pool[:, :2], 1, 60))
    assert clear.settled
    assert (clear.winner, clear.labels_needed, clear.contenders) == ("first", 0, ())


def test_identical_captions_never_settle() -> None:
    pool = np.random.default_rng(0).gamma(2.0, 0.5, (500, 1)).repeat(2, axis=1)
    found = plan_labels(NAMES[:2], drawn(pool, 0, 200))
    assert not found.settled
    assert found.labels_needed is None


def test_too_few_labels_settle_nothing() -> None:
    pool = np.array([[1.0, 0.0]]) + np.random.default_rng(0).normal(0, 1e-6, (500, 2))
    assert not plan_labels(NAMES[:2], drawn(pool, 0, 9)).settled
    assert plan_labels(NAMES[:2], drawn(pool, 0, 20)).settled
    assert not plan_labels(NAMES[:2], drawn(pool, 0, 0)).settled


def test_the_whole_pool_decides() -> None:
    pool = np.random.default_rng(3).normal(1, 1, (60, 2))
    pool[:, 1] += pool[:, 0].mean() - pool[:, 1].mean() - 1e-3  # nearly equal
    found = plan_labels(NAMES[:2], drawn(pool, 0, 60))
    assert found.settled
    assert found.winner == "first"


def test_terms_are_unbiased_whatever_was_drawn_before() -> None:
    """Also with control variates: the slopes come from earlier labels."""
    generator = np.random.default_rng(0)
    pool, rates = generator.gamma(2.0, 1.0, (40, 3)), generator.uniform(0.1, 2.0, 40)
    known = pool + generator.normal(0, 0.5, pool.shape)
    found = [drawn(pool, seed, 30, rates, known) for seed in range(3000)]
    terms = [unbiased_terms(one) * one.left[:, None] / 40 for one in found]  # of every term, the mean over the pool
    apart = np.diff(terms, axis=2)
    off = (apart.mean(axis=0) - np.diff(pool.mean(axis=0))) / (apart.std(axis=0) / np.sqrt(3000))
    assert np.abs(off).max() < 4.5  # 60 standard normal numbers
    means = np.array([pool_means(unbiased_terms(one), one) for one in found])
    assert np.diff(means.mean(axis=0)) == pytest.approx(np.diff(pool.mean(axis=0)), abs=0.03)
    plain = [unbiased_terms(drawn(pool, seed, 30, rates)) for seed in range(300)]
    assert (
        np.diff(terms[:300], axis=2)[:, 20:].std()
        < 0.7
        * np.diff([term * one.left[:, None] / 40 for term, one in zip(plain, found, strict=False)], axis=2)[
            :, 20:
        ].std()
    )


def test_rates_and_sums_of_rates_leave_out_what_is_no_part_of_the_pool() -> None:
    rate = np.array([1.0, 2.0, 3.0, 4.0])
    order = SampleOrder(list("abcd"), 0, [(rate, 4)])
    own, left = order.draws(4, left_out=[2])
    np.testing.assert_allclose(own, rate[order.rows] / 2.5)
    kept = np.where(order.rows == 2, 0.0, rate[order.rows] / 2.5)
    np.testing.assert_allclose(left, np.cumsum(kept[::-1])[::-1])


@pytest.mark.slow
@pytest.mark.parametrize(("weighted", "models"), [(False, 2), (True, 2), (False, 4), (True, 4)])
def test_looking_all_the_time_is_rarely_wrong(weighted: bool, models: int) -> None:
    """No difference between skewed models, a look after each of 300 labels: the best is put out in 5% at most."""
    generator = np.random.default_rng(1)
    pool = generator.gamma(0.5, 2.0, (3000, models))
    pool -= pool.mean(axis=0) - 1
    rates = np.abs(pool[:, 0] - pool[:, 1]) + 0.2 if weighted else None
    known = pool + generator.normal(0, 1, pool.shape)
    wrong = sum(excluded(unbiased_terms(drawn(pool, seed, 300, rates, known)), 0.05)[-1, 0] for seed in range(400))
    assert wrong <= 28  # binomial(400, 0.05) stays below in 95%


def test_a_pool_that_is_used_up_settles_close_models() -> None:
    """What is left of the pool cannot change the order any more long before all of it is labelled."""
    pool = np.random.default_rng(5).normal(0, 1, (400, 2))
    pool[:, 1] += pool[:, 0].mean() - pool[:, 1].mean() - 0.1  # a tenth of a standard deviation worse
    needed = [excluded(unbiased_terms(drawn(pool, seed, 400)), 0.05)[:, 1].argmax() for seed in range(40)]
    assert 100 < np.mean(needed) < 390


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="no goal 'second'"):
        PlanSettings("second")
    with pytest.raises(InputError, match="between 0 and 1"):
        PlanSettings(risk=0.0)
