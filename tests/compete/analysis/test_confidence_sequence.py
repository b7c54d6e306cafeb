"""Wealth and confidence sequences: the risk holds although one looks after every value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from captrial.compete.analysis.confidence_sequence import (
    STAKES,
    labels_needed,
    log_wealth,
    mean_interval,
    running_log_t,
)

RISK = 0.1
RUNS, VALUES = 400, 150


def running_wealth(gains: np.ndarray) -> np.ndarray:
    """(runs, n) log wealth after every value, from the definition: the mean over stakes of products."""
    growth = np.cumsum(np.log1p(STAKES[:, None, None] * gains), axis=2)  # (stakes, runs, n)
    return np.log(np.exp(growth).mean(axis=0))


@pytest.mark.parametrize("values", [(-1.0, 1.0), (-1.0, 0.0, 1.0), (-0.2, 0.2), (-0.25, 1.0)])
def test_wealth_rarely_grows_without_cause(values: tuple[float, ...]) -> None:
    """Gains of mean 0, looked at after each: the wealth exceeds 1 / risk in at most the risk's share of runs."""
    weights = np.full(len(values), 1.0) if values != (-0.25, 1.0) else np.array([0.8, 0.2])
    gains = np.random.default_rng(0).choice(values, (RUNS, VALUES), p=weights / weights.sum())
    ever = (running_wealth(gains) >= math.log(1 / RISK)).any(axis=1).mean()
    assert ever <= RISK + 3 * math.sqrt(RISK * (1 - RISK) / RUNS)
    assert log_wealth(gains[0]) == pytest.approx(running_wealth(gains[:1])[0, -1])


def test_order_does_not_matter_and_evidence_grows() -> None:
    gains = np.random.default_rng(1).choice([-1.0, 1.0], 300, p=[0.35, 0.65])
    assert log_wealth(gains) == pytest.approx(log_wealth(np.sort(gains)))
    assert log_wealth(gains) > math.log(1e3)
    assert log_wealth(-gains) < 0
    assert log_wealth(np.zeros(0)) == pytest.approx(0)


def test_bounds_hold_at_every_look() -> None:
    random, looks, wrong = np.random.default_rng(2), (1, 2, 3, 5, 8, 13, 21, 34, 55, 89), 0
    for _ in range(200):
        values = random.choice([0.0, 0.5, 1.0], 89, p=[0.2, 0.1, 0.7])  # mean 0.75
        bounds = [mean_interval(values[:look], RISK) for look in looks]
        wrong += any(not low <= 0.75 <= high for low, high in bounds)
    assert wrong / 200 <= RISK + 3 * math.sqrt(RISK * (1 - RISK) / 200)
    assert bounds[-1][1] - bounds[-1][0] < 0.45
    assert mean_interval(np.zeros(0)) == (0.0, 1.0)
    low, high = mean_interval(np.ones(50))
    assert 0.85 < low < high == 1.0


def test_the_number_of_labels_is_predicted() -> None:
    random = np.random.default_rng(3)
    target = math.log(1 / 0.05)
    seen = random.choice([-1.0, 1.0], 40, p=[0.4, 0.6])
    more = labels_needed(seen, target)
    assert 0 < more < math.inf
    assert log_wealth(np.tile(seen, 1 + math.ceil(more / 40))) >= target
    assert log_wealth(np.tile(seen, max(1, int(more / 40)))) < target + 2
    assert labels_needed(np.ones(100), target) == 0
    assert labels_needed(-np.ones(10), target) == math.inf
    assert labels_needed(np.zeros(0), target) == math.inf


def test_numbers_that_are_all_the_same_say_nothing() -> None:
    """A model that is a little worse on 19 of 20 images and much better on one: ten labels may not show the one."""
    same = np.full(40, -0.1)
    assert (running_log_t(-same) == -np.inf).all()
    same[25] = 1.9
    assert (running_log_t(-same) < np.log(20)).all()
