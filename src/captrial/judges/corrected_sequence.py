"""Stop rule and confidence sequences for votes of people that correct a judge: valid however often one looks.

The judge's verdicts f on all N items of a pair of models are known. People vote on the items in a random order; y_i is
the i-th vote. Before it, the slope w_i of votes on verdicts is known from the votes so far, and

    z_i = y_i - w_i (f_i - F_i),    F_i the mean verdict on the items not voted on yet

has the expectation (N mu - y_1 - ... - y_{i-1}) / (N - i + 1), the mean of the votes that are still to come, if mu is
the mean over all items (sampling without replacement: Waudby-Smith and Ramdas 2020). So bets on z_i are fair whatever
the judge does, and `captrial.compete.analysis.confidence_sequence` turns them into evidence: the chance that it ever
exceeds 1 / risk against a true hypothesis is at most the risk. Everything is about the judged items, no larger pool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete import Judgement
from captrial.compete.analysis.confidence_sequence import exclusion, running_log_wealth
from captrial.errors import StateError
from captrial.judges.correction import JUDGE_ONLY, JudgedItems, corrected_mean, judged_items

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PRIOR = 4.0  # votes of a judge that follows nobody, so that the first slopes are small
_TINY = 1e-12
_BISECTIONS = 20  # to 1e-6


@dataclass(frozen=True)
class FairBets:
    """Votes in their order, less what the judge's verdicts explain; see the equations above."""

    z: Floats  # (n,)
    lowest: Floats  # (n,) that z_i could have been
    highest: Floats
    before: Floats  # (n,) sums of the votes before
    left: Floats  # (n,) items not voted on before

    @classmethod
    def of(cls, votes: Floats, verdicts: Floats, judge_mean: float, items: int) -> FairBets:
        """From votes (n,) and verdicts (n,) in the order of voting; `judge_mean` is over all `items`."""
        left = items - np.arange(len(votes), dtype=np.float64)
        rest = np.clip((items * judge_mean - _before(verdicts)) / left, 0.0, 1.0)
        slope = _slopes_before(votes, verdicts)
        z = votes - slope * (verdicts - rest)
        lowest = -np.maximum(slope * (1 - rest), -slope * rest)
        highest = 1 + np.maximum(slope * rest, -slope * (1 - rest))
        return cls(z, lowest, highest, _before(votes), left)

    def gains_above(self, mean: float) -> Floats:
        """(n,) of at least -1: what a bet on "more than `mean`" wins where the mean of all items is `mean`."""
        return self._gains(mean, self.z, self.lowest, 1.0)

    def gains_below(self, mean: float) -> Floats:
        """(n,) of at least -1: what a bet on "less than `mean`" wins."""
        return self._gains(mean, self.z, self.highest, -1.0)

    def refuted(self, mean: float, risk: float) -> NDArray[np.bool_]:
        """(n,) whether a mean of all items has been refuted after each vote; half of the wealth is on either side."""
        both = np.logaddexp(
            running_log_wealth(self.gains_above(mean)), running_log_wealth(self.gains_below(mean))
        ) - math.log(2)
        impossible = (self._expected(mean) < -_TINY) | (self._expected(mean) > 1 + _TINY)
        return np.asarray((both >= math.log(1 / risk)) | np.logical_or.accumulate(impossible))

    def interval(self, risk: float = 0.05) -> tuple[float, float]:
        """Means of all items that are not refuted after the last vote."""
        if not len(self.z):
            return 0.0, 1.0
        middle = float(np.clip(np.mean(self.z), 0.0, 1.0))
        return self._edge(middle, 0.0, risk), self._edge(middle, 1.0, risk)

    def _edge(self, inside: float, outside: float, risk: float) -> float:
        if not self.refuted(outside, risk)[-1]:
            return outside
        for _ in range(_BISECTIONS):
            middle = 0.5 * (inside + outside)
            inside, outside = (inside, middle) if self.refuted(middle, risk)[-1] else (middle, outside)
        return outside

    def _expected(self, mean: float) -> Floats:
        return (mean * (self.left + np.arange(len(self.z))) - self.before) / self.left

    def _gains(self, mean: float, z: Floats, bound: Floats, side: float) -> Floats:
        expected = np.clip(self._expected(mean), 0.0, 1.0)
        stake = np.maximum(side * (expected - bound), _TINY)
        return np.asarray(np.clip(side * (z - expected) / stake, -1.0, 1e12))


def _before(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values) - values)


def _slopes_before(votes: Floats, verdicts: Floats) -> Floats:
    """(n,) of votes on verdicts among those before; both have a prior mean of a half."""
    count = np.arange(len(votes)) + _PRIOR
    y, f = votes - 0.5, verdicts - 0.5
    sums = [_before(values) for values in (y, f, y * f, f * f)]
    across = sums[2] - sums[0] * sums[1] / count
    own = sums[3] + _PRIOR / 4 - sums[1] ** 2 / count
    return np.asarray(np.clip(across / np.maximum(own, _TINY), -1.0, 1.0))


@dataclass(frozen=True)
class VotePlan:
    """Whether the best model on the judged items is settled, at a risk that holds however often one looks."""

    risk: float
    winner: str  # the leader so far
    contenders: tuple[str, ...]  # models that may still be the best
    settled: bool
    votes: int
    items: int
    rates: tuple[tuple[str, str, float, float, float], ...]  # two models, win rate of the first, anytime-valid bounds

    def summary(self) -> str:
        """The result as a sentence."""
        voted = f"votes on {self.votes} of {self.items} judged items"
        if self.settled:
            return f"Settled after {voted}, at a risk of {self.risk:.1%}: {self.winner} is the best. You can stop."
        if not self.contenders:
            return f"No model beats all others after {voted}: every one loses to some other."
        rivals = ", ".join(name for name in self.contenders if name != self.winner)
        return f"Not settled after {voted}: {self.winner} leads, and {rivals or 'no other'} may still be the best."


def plan_votes(people: Sequence[Judgement], verdicts: Sequence[Judgement], risk: float = 0.05) -> VotePlan:
    """Apply the stop rule to votes in the order given; a model is the best if it beats every other on the items."""
    items = judged_items(people, verdicts)
    order = _order_of_votes(people, items)
    if not len(order):
        raise StateError(f"{JUDGE_ONLY}: people voted on none of the {len(items.judge)} items; have some judged")
    bets = {pair: _bets(items, pair, order) for pair in items.pairs()}
    out = [_exclusion(items, bets, order, model) >= math.log(1 / risk) for model in range(len(items.models))]
    means = {pair: _mean(items, pair) for pair in bets}
    points = np.zeros(len(items.models))
    for (i, j), mean in means.items():
        points[[i, j]] += mean, 1 - mean
    best = int(np.argmax(points))
    left = tuple(name for number, name in enumerate(items.models) if not out[number])
    rates = tuple(
        (items.models[i], items.models[j], means[i, j], *one.interval(risk)) for (i, j), (one, _) in bets.items()
    )
    winner = left[0] if len(left) == 1 else items.models[best]
    return VotePlan(risk, winner, left, len(left) == 1, len(order), len(items.judge), rates)


def _order_of_votes(people: Sequence[Judgement], items: JudgedItems) -> Ints:
    """(n,) the items with votes, in the order of their first vote."""
    names = zip(items.image, items.first, items.second, strict=True)
    place = {(items.images[a], items.models[b], items.models[c]): row for row, (a, b, c) in enumerate(names)}
    keys = ((one.image, *sorted((one.first, one.second))) for one in people)
    return np.array(list(dict.fromkeys(place[key] for key in keys if key in place)), np.int64)


def _bets(items: JudgedItems, pair: tuple[int, int], order: Ints) -> tuple[FairBets, Ints]:
    """Of one pair, and the places of its votes in the whole order."""
    rows = items.of_pair(pair)
    places = np.flatnonzero(rows[order])
    own = order[places]
    return FairBets.of(items.human[own], items.judge[own], float(items.judge[rows].mean()), int(rows.sum())), places


def _exclusion(
    items: JudgedItems, bets: dict[tuple[int, int], tuple[FairBets, Ints]], order: Ints, model: int
) -> float:
    """The largest log evidence so far that a model is not the best, by its direct comparisons."""
    columns = []
    for (i, j), (one, places) in bets.items():
        if model in (i, j):
            column = np.full(len(order), np.nan)
            column[places] = one.gains_below(0.5) if model == i else one.gains_above(0.5)
            columns.append(column)
    if not columns or not len(order):
        return 0.0
    return float(exclusion(np.stack(columns, axis=1), running_log_wealth).max())


def _mean(items: JudgedItems, pair: tuple[int, int]) -> float:
    rows = items.of_pair(pair)
    if (~np.isnan(items.human[rows])).sum() < 2:
        return 0.5
    return corrected_mean(items.human[rows], items.judge[rows]).corrected.mean
