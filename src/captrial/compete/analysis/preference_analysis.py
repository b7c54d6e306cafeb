"""Judgements so far: is the best model settled, what should be judged next, and how few images decide?

**Stop rule.** An image gives a gain of model i over j in [-1, 1]: 2 y_ij - 1 where the two were compared on it (y is
the share of verdicts for i, ties half), and y_ik - y_jk where both were compared with k; the mean of those there are.
If i is no better than j, the expected gain is at most 0, as long as strengths order the models (stochastic
transitivity: Bradley-Terry, Davidson and many other models). The wealth of bets on these gains
(`confidence_sequence`) is evidence that i is better, and from it follows the evidence that a model is *not* the best
(`exclusion` there): a model is out once this exceeds 1 / risk. The chance that the best model is ever put out, however
often one looks, is at most the risk; the winner is settled when one model is left. Images are the unit, in the order in
which they were judged, and only images that have all their judgements count.

**Flip report.** The fewest images whose judgements change the winner when they are removed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.analysis.confidence_sequence import (
    exclusion,
    exclusion_share,
    labels_needed,
    log_wealth,
    mean_interval,
    running_log_wealth,
)
from captrial.compete.analysis.flip import FlipReport
from captrial.compete.analysis.planner import GOALS
from captrial.compete.ranking.bradley_terry import Comparisons, DavidsonFit, fit_davidson
from captrial.compete.ranking.preferences import PreferenceResult, WinRate, as_comparisons
from captrial.compete.storage.judgements import Judgement
from captrial.errors import InputError, StateError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EXHAUSTIVE = 2_000_000  # images times judgements up to which every image alone is left out: seconds
_ROUNDING = 1e-9  # lead in log strength from which on another model wins


@dataclass(frozen=True, slots=True)
class OpenComparison:
    """Two models whose order is not settled, or was: images that compare them, and how many more it will take."""

    ahead: str
    behind: str
    images: int
    gain: float  # mean gain an image of the model ahead, from -1 to 1
    evidence: float  # e-value; how many times more the images speak for the order than chance allows
    images_needed: int | None  # more images like these, 0 where settled; None where no number can be predicted


@dataclass(frozen=True, slots=True)
class JudgementPlan:
    """Whether the goal is settled at the risk, and what to judge next."""

    goal: str  # of GOALS: winner, order
    risk: float
    winner: str  # the leader so far
    contenders: tuple[str, ...]  # models that may still be the best
    settled: bool
    images: int  # that count
    incomplete: int  # images left out because judgements are still to come
    images_needed: int | None  # predicted number of further images; 0 where settled, None where it cannot be predicted
    comparisons: tuple[OpenComparison, ...]  # those that the goal depends on, hardest first
    win_rates: tuple[WinRate, ...]  # of pairs that were compared; bounds hold whenever one looks
    next_pairs: tuple[tuple[str, str, str], ...] = ()  # (image, model, model) to judge next

    def summary(self) -> str:
        """The result as one or two sentences."""
        what = "the winner" if self.goal == "winner" else "the order"
        judged = f"{self.images} judged image{'' if self.images == 1 else 's'}"
        if self.settled:
            best = f": {self.winner} is the best" if self.goal == "winner" else ""
            return f"Settled after {judged}, at a risk of {self.risk:.1%}{best}. You can stop."
        if self.images_needed is None:
            more = "how many more images it takes cannot be predicted yet"
        else:
            more = f"about {self.images_needed} more images will probably settle {what}"
        rivals = [name for name in self.contenders if name != self.winner]
        listed = ", ".join(rivals[:5]) + (f" and {len(rivals) - 5} more" if len(rivals) > 5 else "")
        doubt = f", and {listed} may still be the best" if rivals and self.goal == "winner" else ""
        return f"Not settled after {judged}: {self.winner} leads{doubt}; {more}."


def plan_judgements(
    judgements: Sequence[Judgement],
    models: Sequence[str] | None = None,
    *,
    goal: str = "winner",
    risk: float = 0.05,
    unjudged: Mapping[tuple[str, str], Sequence[str]] | None = None,
    most: int = 20,
) -> JudgementPlan:
    """Apply the stop rule; `unjudged` are images without judgements by pair of models, of which `most` are named."""
    if goal not in GOALS:
        raise InputError(f"no goal {goal!r}; choose from {', '.join(GOALS)}")
    images = {judgement.image for judgement in judgements}
    open_images = {judgement.image for judgement in judgements if not judgement.complete}
    if judgements and images == open_images:
        raise StateError("no image has all its judgements yet; the stop rule counts finished images only")
    data, names, _ = as_comparisons([one for one in judgements if one.image not in open_images], models)
    gains = ImageGains(data)
    order = np.argsort(-fit_davidson(data).strength, kind="stable").tolist()
    pairs = _goal_pairs(order, goal)
    limit = math.log(1 / risk) if goal == "winner" else math.log(len(names) * (len(names) - 1) / 2 / risk)
    target = limit + math.log(exclusion_share(len(names))) if goal == "winner" else limit
    out = exclusion_evidence(gains.over, len(names)).max(axis=0) >= math.log(1 / risk)
    found = [_comparison((names[i], names[j]), gains.between(i, j), target) for i, j in pairs]
    settled = int((~out).sum()) == 1 if goal == "winner" else all(one.evidence >= math.exp(limit) for one in found)
    if goal == "winner":  # out by the evidence of several models together: nothing more is needed
        found = [_settled(one) if out[names.index(one.behind)] else one for one in found]
    needed = [one.images_needed for one in found]
    open_pairs = [one for one in found if one.images_needed != 0]
    return JudgementPlan(
        goal=goal,
        risk=risk,
        winner=names[order[0]],
        contenders=tuple(names[index] for index in order if not out[index]),
        settled=settled,
        images=len(images) - len(open_images),
        incomplete=len(open_images),
        images_needed=0 if settled else None if None in needed else max(n for n in needed if n is not None),
        comparisons=tuple(sorted(found, key=lambda one: one.evidence)),
        win_rates=tuple(_win_rates(data, names, risk)),
        next_pairs=tuple(_next(open_pairs, unjudged or {}, most)),
    )


class ImageGains:
    """The gain of every model over another on each image, in [-1, 1]; NaN where the image does not compare them.

    Gains over one model at a time: with hundreds of models, those of all pairs would fill gigabytes.
    """

    def __init__(self, data: Comparisons) -> None:
        self.models, self.images = data.models, int(data.cluster.max(initial=-1)) + 1
        image, one, other = (
            np.concatenate(both)
            for both in ((data.cluster, data.cluster), (data.first, data.second), (data.second, data.first))
        )
        keys = (image * self.models + one) * self.models + other
        kinds, place = np.unique(keys, return_inverse=True)
        points = np.bincount(place, np.concatenate([data.outcome, 1 - data.outcome]), len(kinds))
        self._share = points / np.maximum(np.bincount(place, minlength=len(kinds)), 1)  # y of each (image, one, other)
        self._image, pair = np.divmod(kinds, self.models**2)
        self._one, self._other = np.divmod(pair, self.models)

    def over(self, model: int) -> Floats:
        """(images, m) of every model over this one."""
        shape = (self.images, self.models)
        own = self._one == model
        met = np.full(shape, np.nan)  # share of this model against each model it was compared with
        met[self._image[own], self._other[own]] = self._share[own]
        through = self._share - met[self._image, self._other]  # both were compared with the other
        direct = self._other == model
        gain = np.where(direct, 2 * self._share - 1, through)
        kept = ~np.isnan(gain) & ~own
        cell = self._image[kept] * self.models + self._one[kept]
        pieces = np.bincount(cell, minlength=shape[0] * shape[1])
        total = np.bincount(cell, gain[kept], shape[0] * shape[1])
        return np.asarray(np.where(pieces > 0, total / np.maximum(pieces, 1), np.nan).reshape(shape))

    def between(self, first: int, second: int) -> Floats:
        """(n,) of the first over the second, on the images that compare them."""
        gains = self.over(second)[:, first]
        return np.asarray(gains[~np.isnan(gains)])


def exclusion_evidence(over: Callable[[int], Floats], models: int) -> Floats:
    """(images, m) log evidence, after each image, that a model is not the best; `over` as `ImageGains.over`.

    A model is out where this has ever reached log(1 / risk).
    """
    rivals = (np.delete(over(model), model, axis=1) for model in range(models))
    return np.stack([exclusion(gains, running_log_wealth) for gains in rivals], axis=1)


def _goal_pairs(order: Sequence[int], goal: str) -> list[tuple[int, int]]:
    if goal == "winner":
        return [(order[0], other) for other in order[1:]]
    return list(itertools.pairwise(order))


def _comparison(names: tuple[str, str], gains: Floats, target: float) -> OpenComparison:
    more = labels_needed(gains, target)
    needed = None if math.isinf(more) else math.ceil(more)
    evidence = math.exp(min(log_wealth(gains), 700.0)) if len(gains) else 1.0
    return OpenComparison(*names, len(gains), float(gains.mean()) if len(gains) else 0.0, evidence, needed)


def _settled(comparison: OpenComparison) -> OpenComparison:
    return OpenComparison(
        comparison.ahead, comparison.behind, comparison.images, comparison.gain, comparison.evidence, 0
    )


def _win_rates(data: Comparisons, names: Sequence[str], risk: float) -> list[WinRate]:
    """Of every pair that was compared, the share of verdicts by image."""
    low, high = np.minimum(data.first, data.second), np.maximum(data.first, data.second)
    points = np.where(data.first < data.second, data.outcome, 1 - data.outcome)
    found = []
    for i, j in sorted({(int(i), int(j)) for i, j in zip(low, high, strict=True)}):
        chosen = (low == i) & (high == j)
        cells = np.unique(data.cell[chosen], return_inverse=True)[1]
        shares = np.bincount(cells, points[chosen]) / np.bincount(cells)
        mean = float(shares.mean())
        below, above = mean_interval(shares, risk)
        if mean >= 0.5:
            found.append(WinRate((names[i], names[j]), len(shares), mean, below, above))
        else:
            found.append(WinRate((names[j], names[i]), len(shares), 1 - mean, 1 - above, 1 - below))
    return found


def _next(
    open_pairs: Sequence[OpenComparison], unjudged: Mapping[tuple[str, str], Sequence[str]], most: int
) -> list[tuple[str, str, str]]:
    """Images without judgements of the open comparisons, in turn, the one with least evidence first."""
    ordered = sorted(open_pairs, key=lambda one: one.evidence)
    queues = [
        [
            (image, one.ahead, one.behind)
            for key in ((one.ahead, one.behind), (one.behind, one.ahead))
            for image in unjudged.get(key, ())
        ]
        for one in ordered
    ]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)][:most]


# Flip report ---------------------------------------------------------------------------------------------------------


def flip_judgements(result: PreferenceResult, influential: int = 10) -> FlipReport:
    """The fewest images whose judgements change the winner when removed.

    Every image alone is tried (of very many judgements, only those that first-order influence puts first), so one
    image is found where one is enough; beyond one the number is an upper bound. The margin is the ratio of the
    strengths of winner and second.
    """
    strength, data = result.fit.strength, result.comparisons
    winner = int(np.argmax(strength))
    moved = strength - result.fit.influence[:, : len(strength)]  # (images, m) without each image, to first order
    expected = moved[:, winner] - np.delete(moved, winner, axis=1).max(axis=1)
    tried = len(expected) if len(expected) * len(data.first) <= _EXHAUSTIVE else influential
    order = np.argsort(expected, kind="stable")[:tried]
    without = [(int(image), _lead_without(data, [int(image)], winner, result.fit)) for image in order]
    without.sort(key=lambda pair: pair[1])
    alone = bool(without) and without[0][1] < -_ROUNDING
    removed = [without[0][0]] if alone else _fewest(result, winner)
    after = fit_davidson(data.taken(~np.isin(data.cluster, removed))).strength if removed else strength
    return FlipReport(
        winner=result.models[winner],
        margin=float(np.exp(_lead(strength, winner))),
        removed=tuple(result.images[index] for index in removed),
        new_winner=result.models[int(np.argmax(after))] if removed else None,
        method="exact" if alone else "greedy upper bound",
        influential=tuple((result.images[image], float(np.exp(lead))) for image, lead in without[:influential]),
    )


def _lead(strength: Floats, winner: int) -> float:
    """Log strength of the winner minus that of the best other."""
    return float(strength[winner] - np.delete(strength, winner).max())


def _lead_without(data: Comparisons, images: Sequence[int], winner: int, start: DavidsonFit | None = None) -> float:
    """The lead without some images; infinite where the models are no longer connected."""
    kept = data.taken(~np.isin(data.cluster, images))
    if not len(kept.first) or kept.connected.max() > 0:
        return math.inf
    return _lead(fit_davidson(kept, start).strength, winner)


def _fewest(result: PreferenceResult, winner: int) -> list[int]:
    """Remove the images that help the winner most against one rival, as few as do, over all rivals."""

    def flips(images: Sequence[int]) -> bool:
        return _lead_without(result.comparisons, images, winner) < -_ROUNDING

    best: list[int] = []
    for rival in np.argsort(-result.fit.strength, kind="stable"):
        if rival == winner:
            continue
        helps = result.fit.influence[:, winner] - result.fit.influence[:, rival]
        order = [int(image) for image in np.argsort(-helps, kind="stable") if helps[image] > 0]
        most = min(len(order), len(best) - 1 if best else len(order))
        low, high = 0, 1
        while high <= most and not flips(order[:high]):
            low, high = high, 2 * high if 2 * high <= most or high == most else most
        if high > most:
            continue
        while high - low > 1:  # the lead shrinks with every such image
            middle = (low + high) // 2
            low, high = (low, middle) if flips(order[:middle]) else (middle, high)
        best = order[:high]
    return best
