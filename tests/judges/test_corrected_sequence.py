"""The stop rule with a judge: errors at most the risk however often one looks, whatever the judge does."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete import Judgement
from captrial.compete.analysis.confidence_sequence import running_log_wealth
from captrial.errors import StateError
from captrial.judges import FairBets, plan_votes


def drawn(seed: int, accuracy: float, rate: float = 0.5, votes: int = 150, items: int = 600) -> tuple[FairBets, float]:
    random = np.random.default_rng(seed)
    truth = (random.random(items) < rate).astype(float)
    verdicts = np.where(random.random(items) < accuracy, truth, 1 - truth)
    return FairBets.of(truth[:votes], verdicts[:votes], float(verdicts.mean()), items), float(truth.mean())


@pytest.mark.parametrize("accuracy", [1.0, 0.7, 0.1])
def test_the_truth_is_rarely_ever_refuted(accuracy: float) -> None:
    wrong = [bets.refuted(mean, 0.1).any() for bets, mean in (drawn(seed, accuracy) for seed in range(200))]
    assert np.mean(wrong) <= 0.1


def test_gains_are_fair_bets_against_the_true_mean() -> None:
    """Their mean is 0 where the hypothesis is exactly true, also near the end of the items."""
    gains = []
    for seed in range(400):
        bets, mean = drawn(seed, 0.8, 0.4, votes=55, items=60)
        gains.append(bets.gains_above(mean))
    each = np.array(gains)[:, 5:]
    error = each.std(axis=0) / np.sqrt(len(each))
    assert (np.abs(each.mean(axis=0)) < 4.5 * error).all()
    assert each.min() >= -1


def test_a_good_judge_settles_earlier() -> None:
    def needed(accuracy: float) -> float:
        found = []
        for seed in range(60):
            evidence = running_log_wealth(drawn(seed, accuracy, 0.7)[0].gains_above(0.5))
            reached = np.flatnonzero(evidence >= np.log(20))
            found.append(reached[0] + 1 if len(reached) else 150)
        return float(np.median(found))

    assert needed(0.95) < 0.85 * needed(0.5)


def test_intervals_narrow_and_hold_the_truth() -> None:
    for seed in range(5):
        bets, mean = drawn(seed, 0.9, 0.7)
        low, high = bets.interval()
        assert low <= mean <= high
        assert high - low < 0.25


def test_all_items_voted_on_leave_no_doubt() -> None:
    bets, mean = drawn(0, 0.9, 0.7, votes=60, items=60)
    low, high = bets.interval()
    assert high - low < 0.1
    assert low <= mean <= high


def judged(rate: dict[str, float], votes: int, seed: int = 0) -> tuple[list[Judgement], list[Judgement]]:
    random = np.random.default_rng(seed)
    people, verdicts = [], []
    names = sorted(rate)
    for n in range(400):
        for at, first in enumerate(names):
            for second in names[at + 1 :]:
                vote = float(random.random() < rate[first] / (rate[first] + rate[second]))
                verdicts.append(Judgement(str(n), first, second, vote if random.random() < 0.9 else 1 - vote))
                if n < votes:
                    people.append(Judgement(str(n), first, second, vote))
    return people, verdicts


def test_the_best_of_three_is_settled_and_equal_models_are_not() -> None:
    found = plan_votes(*judged({"a": 0.2, "b": 0.8, "c": 0.2}, 100))
    assert (found.settled, found.winner, found.contenders) == (True, "b", ("b",))
    assert "You can stop" in found.summary()
    equal = plan_votes(*judged({"a": 0.5, "b": 0.5, "c": 0.5}, 40))
    assert not equal.settled
    assert len(equal.contenders) == 3
    for _, _, rate, low, high in equal.rates:
        assert low <= rate <= high


def test_without_votes_nothing_is_said() -> None:
    with pytest.raises(StateError, match="JUDGE ONLY"):
        plan_votes([], [Judgement("1", "a", "b", 1.0)])
