"""Corrected means and win rates: unbiased whatever the judge, narrower where it is good, and silent without votes."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete import Judgement
from captrial.errors import InputError, StateError
from captrial.judges import corrected_mean, corrected_win_rates, judged_items


def simulated(seed: int, accuracy: float, votes: int, rate: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truth = (random.random(10 * votes) < rate).astype(float)
    verdicts = np.where(random.random(len(truth)) < accuracy, truth, 1 - truth)
    return np.where(np.arange(len(truth)) < votes, truth, np.nan), verdicts


@pytest.mark.parametrize("accuracy", [0.95, 0.6, 0.05])
@pytest.mark.parametrize("votes", [20, 100])
def test_intervals_cover_and_the_estimate_is_unbiased(accuracy: float, votes: int) -> None:
    found = [corrected_mean(*simulated(seed, accuracy, votes)) for seed in range(600)]
    covered = np.mean([one.corrected.low <= 0.7 <= one.corrected.high for one in found])
    means = np.array([one.corrected.mean for one in found])
    assert 0.92 <= covered <= 0.995
    assert abs(means.mean() - 0.7) < 4 * means.std() / np.sqrt(len(means))


def test_the_judge_alone_does_not_cover() -> None:
    found = [corrected_mean(*simulated(seed, 0.75, 100)) for seed in range(100)]
    assert np.mean([one.judge.low <= 0.7 <= one.judge.high for one in found]) < 0.05


def test_a_good_judge_saves_votes_and_a_useless_one_costs_none() -> None:
    good, useless = (corrected_mean(*simulated(3, accuracy, 200)) for accuracy in (0.95, 0.5))
    assert good.corrected.width < 0.65 * good.people.width
    assert good.effective_votes > 400
    assert 0.97 < useless.corrected.width / useless.people.width < 1.03
    assert good.weight > 0.7 > 0.2 > abs(useless.weight)


def test_a_constant_judge_leaves_the_votes_of_people() -> None:
    votes, _ = simulated(0, 1.0, 50)
    found = corrected_mean(votes, np.full(len(votes), 0.5))
    assert found.corrected == found.people
    assert found.corrected.mean == pytest.approx(np.nanmean(votes))


def test_strata_are_weighted_by_their_size_not_by_their_votes() -> None:
    """Half of the votes are in a stratum that holds a tenth of the items."""
    strata = np.repeat([0, 1], [900, 100])
    truth = np.where(strata == 0, 0.0, 1.0)
    votes = np.full(1000, np.nan)
    votes[:50], votes[900:950] = truth[:50], truth[900:950]
    plain, stratified = (corrected_mean(votes, np.full(1000, 0.5), groups) for groups in (None, strata))
    assert plain.corrected.mean == pytest.approx(0.5)
    assert stratified.corrected.mean == pytest.approx(0.1)


def test_stratified_intervals_cover() -> None:
    covered = []
    for seed in range(400):
        random = np.random.default_rng(seed)
        strata = np.repeat([0, 1, 2], [600, 300, 100])
        truth = (random.random(1000) < np.array([0.4, 0.6, 0.9])[strata]).astype(float)
        verdicts = np.where(random.random(1000) < 0.85, truth, 1 - truth)
        votes = np.full(1000, np.nan)
        for start, count in ((0, 30), (600, 30), (900, 30)):
            votes[start : start + count] = truth[start : start + count]
        found = corrected_mean(votes, verdicts, strata).corrected
        covered.append(found.low <= 0.51 <= found.high)
    assert 0.92 <= np.mean(covered) <= 0.985


def test_few_votes_have_no_interval_and_none_are_refused() -> None:
    verdicts = np.tile([0.0, 1.0], 50)
    few = np.where(np.arange(100) < 5, verdicts, np.nan)
    assert np.isnan(corrected_mean(few, verdicts).corrected.low)
    with pytest.raises(StateError, match="JUDGE ONLY: people voted on 0 of 100 items"):
        corrected_mean(np.full(100, np.nan), verdicts)


@pytest.mark.parametrize("bad", [np.array([0.0, np.nan, 1.0]), np.array([0.0, 2.0, 1.0]), np.zeros(2)])
def test_bad_verdicts_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InputError):
        corrected_mean(np.array([0.0, 1.0, 1.0]), bad)


def test_votes_that_are_no_random_part_are_noticed() -> None:
    """People saw only items that the judge gave to the first model."""
    verdicts = np.repeat([1.0, 0.0], 100)
    votes = np.where(np.arange(200) < 50, 1.0, np.nan)
    assert not corrected_mean(votes, verdicts).random
    mixed = np.where(np.arange(200) % 4 == 0, verdicts, np.nan)
    assert corrected_mean(mixed, verdicts).random


def test_win_rates_join_votes_and_verdicts_whatever_their_order() -> None:
    verdicts = [
        one
        for n in range(100)
        for one in (Judgement(str(n), "b", "a", float(n % 4 > 0)), Judgement(str(n), "a", "b", float(n % 4 == 0)))
    ]
    people = [Judgement(str(n), "a", "b", float(n % 4 == 0)) for n in range(0, 100, 5)]
    people += [Judgement("unknown", "a", "b", 1.0)]
    verdicts += [Judgement("0", "a", "c", 1.0)]
    items = judged_items(people, verdicts)
    assert items.without_verdict == 1
    first, unchecked = corrected_win_rates(items)
    assert first.models == ("b", "a")
    assert (first.votes, first.items) == (20, 100)
    assert first.mean is not None
    assert first.mean.corrected.low < 0.75 < first.mean.corrected.high
    assert unchecked.judge_only
    assert unchecked.to_json()["win_rate"] is None
