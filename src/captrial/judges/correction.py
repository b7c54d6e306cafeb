"""Win rates by machine judges, corrected by the votes of people on a random part of the items.

An item is a pair of captions of one image. The judge gave a verdict f in [0, 1] on all N items, people a vote y on n of
them that were drawn at random (in each stratum, where the design is stratified). The estimate is that of
prediction-powered inference with a tuned weight (Angelopoulos, Duchi and Zrnic 2023, PPI++; in survey statistics the
regression estimator of two-phase sampling, Cochran 1977, ch. 12):

    mean over the votes of  y_i - w_i (f_i - F),    F the mean of f over all items

It is unbiased whatever the judge does, because E[f_i] = F for a random item, and the more exact the better f follows y.
The weight w_i is the slope of y on f over the *other* votes (cross-fitting: a weight that had seen y_i would bias the
estimate with few votes). Its variance is (1 - n/N) s_z^2 / n + s_y^2 / N, of the numbers z averaged and of the votes.

With few votes a good judge may have been right on all of them, and the variance would be 0. As in intervals of paired
proportions by Agresti and Min (2005), `PRIOR_VOTES` votes are added for the interval (not for the estimate), spread
evenly over the four cells of judge and person. The interval is symmetric on the logit scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from captrial.compete import Judgement
from captrial.errors import InputError, StateError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRIOR_VOTES = 1.0  # chosen on simulated judges (docs/judges.md)
FEWEST_VOTES = 10  # below which no interval is given
FEWEST_IN_STRATUM = 5  # votes; strata with fewer are taken together
JUDGE_ONLY = "JUDGE ONLY"
_CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])  # vote, verdict
_TINY = 1e-12
_SUSPICIOUS = 4.0  # standard errors between the judge's verdicts on voted and on other items


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean with the bounds of its interval; NaN bounds where there are too few votes for one."""

    mean: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """The mean vote over all items: corrected, by people alone, and by the judge alone (which proves nothing)."""

    corrected: MeanInterval
    people: MeanInterval
    judge: MeanInterval
    votes: int  # items with a vote
    items: int  # with a verdict
    weight: float  # of the judge, near 1 where it follows people, 0 where it is useless
    effective_votes: float  # votes that people alone would need for the same variance
    drift: float  # difference of the judge's verdicts between voted and other items, in standard errors

    @property
    def random(self) -> bool:
        """Whether the voted items could be a random part of all, as far as the judge can tell."""
        return abs(self.drift) < _SUSPICIOUS


def corrected_mean(human: Floats, judge: Floats, strata: Ints | None = None, level: float = 0.95) -> CorrectedMean:
    """The mean of votes `human` (N,), NaN where nobody voted, corrected by verdicts `judge` (N,); all in [0, 1].

    `strata` (N,) numbers the strata in each of which votes are a random part; each needs two of them.

    >>> verdicts = np.tile([1.0, 0.0, 1.0, 1.0], 100)
    >>> votes = np.where(np.arange(400) % 10 == 0, verdicts, np.nan)  # the judge was right where it was checked
    >>> found = corrected_mean(votes, verdicts)
    >>> found.corrected.width < found.people.width / 2
    True
    """
    human, judge = np.asarray(human, np.float64), np.asarray(judge, np.float64)
    _check(human, judge)
    groups = np.zeros(len(judge), np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    plan = _Strata(human, judge, groups)
    corrected, people = plan.estimate(plan.slopes()), plan.estimate(np.zeros(plan.votes))
    gained = people[1] / corrected[1] if corrected[1] > 0 else 1.0
    spread = float(np.sqrt(plan.share**2 @ plan.judge_variance))
    alone = float(judge.mean())
    return CorrectedMean(
        _interval(*corrected, level, plan.votes),
        _interval(*people, level, plan.votes),
        MeanInterval(alone, *_bounds(alone, float(judge.var()) / len(judge), level)),
        plan.votes,
        len(judge),
        float(plan.slopes().mean()),
        plan.votes * gained,
        plan.offset / spread if spread > 0 else 0.0,
    )


def _check(human: Floats, judge: Floats) -> None:
    if human.shape != judge.shape or human.ndim != 1:
        raise InputError(f"votes {human.shape} and verdicts {judge.shape} must be two lists of equal length")
    known = human[~np.isnan(human)]
    if np.isnan(judge).any() or ((judge < 0) | (judge > 1)).any() or ((known < 0) | (known > 1)).any():
        raise InputError("votes and verdicts must be numbers from 0 to 1, and every item needs a verdict")
    if len(known) < 2:
        raise StateError(
            f"{JUDGE_ONLY}: people voted on {len(known)} of {len(judge)} items, at least 2 are needed to correct a "
            "judge; have a random part judged by people"
        )


class _Strata:
    """Votes and verdicts by stratum, with the votes that are added for variances (one row of corners a stratum)."""

    def __init__(self, human: Floats, judge: Floats, groups: Ints) -> None:
        voted = ~np.isnan(human)
        count = int(groups.max()) + 1
        self.y, self.f, self.group = human[voted], judge[voted], groups[voted]
        self.votes = len(self.y)
        self.n = np.bincount(self.group, minlength=count).astype(np.float64)  # (strata,)
        self.size = np.bincount(groups, minlength=count).astype(np.float64)
        if self.n.min() < 2:
            raise StateError(f"{int((self.n < 2).sum())} strata have fewer than 2 votes; judge more, or merge strata")
        self.share = self.size / self.size.sum()
        self.mean_judge = np.bincount(groups, judge, count) / self.size
        spread = np.bincount(groups, (judge - self.mean_judge[groups]) ** 2, count) / self.size
        self.judge_variance = spread * np.maximum(1 / self.n - 1 / self.size, 0.0)
        self.offset = float(self.share @ (np.bincount(self.group, self.f, count) / self.n - self.mean_judge))
        self.prior = PRIOR_VOTES * self.share  # (strata,) added votes
        self.total = self.n + self.prior

    @cached_property
    def _means(self) -> tuple[Floats, Floats]:
        count, middle = len(self.n), 0.5 * self.prior
        return (np.bincount(self.group, self.y, count) + middle) / self.total, (
            np.bincount(self.group, self.f, count) + middle
        ) / self.total

    def _corner_sum(self, values: Floats) -> float:
        """Sum over added votes of values (strata, corners)."""
        return float((self.prior / len(_CORNERS)) @ values.sum(axis=1))

    def slopes(self) -> Floats:
        """(n,) of votes on verdicts within strata, each without the vote that it will weight."""
        mean_y, mean_f = self._means
        dy, df = self.y - mean_y[self.group], self.f - mean_f[self.group]
        cy, cf = (_CORNERS[None, :, side] - mean[:, None] for side, mean in ((0, mean_y), (1, mean_f)))
        left = (self.total / (self.total - 1))[self.group]  # what taking one vote away takes from centred sums
        across = float(dy @ df) + self._corner_sum(cy * cf) - left * dy * df
        own = float(df @ df) + self._corner_sum(cf * cf) - left * df * df
        return np.asarray(np.where(own > _TINY, across / np.maximum(own, _TINY), 0.0))

    def estimate(self, slopes: Floats) -> tuple[float, float, float]:
        """The estimate, its variance, and the middle of its interval."""
        count = len(self.n)
        z = self.y - slopes * (self.f - self.mean_judge[self.group])
        mean = np.bincount(self.group, z, count) / self.n
        slope = float(slopes.mean())
        corners = _CORNERS[None, :, 0] - slope * (_CORNERS[None, :, 1] - self.mean_judge[:, None])  # (strata, corners)
        each = self.prior / len(_CORNERS)
        middle = (np.bincount(self.group, z, count) + each * corners.sum(axis=1)) / self.total
        squares = np.bincount(self.group, (z - middle[self.group]) ** 2, count)
        squares += each * ((corners - middle[:, None]) ** 2).sum(axis=1)
        spread = squares / (self.total - 1)
        sampled = self.share**2 @ ((1 - self.n / self.size) * spread / self.total)
        return float(self.share @ mean), float(sampled) + self._of_all_items(), float(self.share @ middle)

    def _of_all_items(self) -> float:
        """The variance that would remain if people had voted on every item: these are a sample of images, too."""
        mean_y, _ = self._means
        whole = float(self.share @ mean_y)
        squares = np.bincount(self.group, (self.y - whole) ** 2, len(self.n))
        squares += self.prior / len(_CORNERS) * ((_CORNERS[None, :, 0] - whole) ** 2).sum(axis=1)
        return float(self.share @ (squares / (self.total - 1 / len(self.n)))) / float(self.size.sum())


def _interval(mean: float, variance: float, middle: float, level: float, votes: int) -> MeanInterval:
    mean = min(max(mean, 0.0), 1.0)
    if votes < FEWEST_VOTES:
        return MeanInterval(mean, np.nan, np.nan)
    edge = 0.5 / (votes + 1)
    low, high = _bounds(min(max(middle, edge), 1 - edge), variance, level)
    return MeanInterval(mean, min(low, mean), max(high, mean))


def _bounds(middle: float, variance: float, level: float) -> tuple[float, float]:
    """Symmetric on the logit scale."""
    if not 0 < middle < 1:
        return middle, middle
    reach = -ndtri((1 - level) / 2) * np.sqrt(variance) / (middle * (1 - middle))
    return float(expit(logit(middle) - reach)), float(expit(logit(middle) + reach))


# Pairs of models ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JudgedItems:
    """Items with a verdict of the judge: image and pair of models, and the mean vote of people (NaN: nobody voted)."""

    models: tuple[str, ...]
    images: tuple[str, ...]
    image: Ints  # (N,)
    first: Ints  # (N,) models; first < second
    second: Ints
    judge: Floats  # (N,) share for the first, ties half; the mean over both orders, where it was asked in both
    human: Floats  # (N,)
    without_verdict: int  # items that people voted on and the judge did not

    @property
    def voted(self) -> NDArray[np.bool_]:
        """(N,) whether a person voted."""
        return ~np.isnan(self.human)

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of models that have items."""
        return sorted({(int(i), int(j)) for i, j in zip(self.first, self.second, strict=True)})

    def of_pair(self, pair: tuple[int, int]) -> NDArray[np.bool_]:
        """(N,) the items of two models."""
        return np.asarray((self.first == pair[0]) & (self.second == pair[1]))


def judged_items(people: Sequence[Judgement], verdicts: Sequence[Judgement]) -> JudgedItems:
    """Join votes of people and verdicts of one judge by image and pair of models."""
    machine, human = _by_item(verdicts), _by_item(people)
    if not machine:
        raise StateError("the judge has given no verdict on two different models; run it first")
    keys = list(machine)
    models = tuple(sorted({name for _, *pair in keys for name in pair}))
    images = tuple(dict.fromkeys(image for image, _, _ in keys))
    number = {name: at for at, name in enumerate(models)}
    place = {name: at for at, name in enumerate(images)}
    return JudgedItems(
        models,
        images,
        np.array([place[image] for image, _, _ in keys], np.int64),
        np.array([number[first] for _, first, _ in keys], np.int64),
        np.array([number[second] for _, _, second in keys], np.int64),
        np.array([machine[key] for key in keys]),
        np.array([human.get(key, np.nan) for key in keys]),
        sum(key not in machine for key in human),
    )


def _by_item(judgements: Sequence[Judgement]) -> dict[tuple[str, str, str], float]:
    """(image, model, model), in the order of names: the mean share for the first of them."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in judgements:
        if one.first != one.second:
            low, high = sorted((one.first, one.second))
            share = one.outcome if one.first == low else 1 - one.outcome
            found.setdefault((one.image, low, high), []).append(share)
    return {key: sum(values) / len(values) for key, values in found.items()}


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """How often the first of two models wins, ties half. `mean` is None where people never checked the judge."""

    models: tuple[str, str]
    mean: CorrectedMean | None
    judge: float  # its own win rate of the first model
    votes: int
    items: int

    @property
    def judge_only(self) -> bool:
        """Whether nothing but the judge speaks about this pair."""
        return self.mean is None

    def to_json(self) -> dict[str, object]:
        """Plain values; None where there is no interval."""
        corrected = self.mean.corrected if self.mean is not None else None
        return {
            "models": list(self.models),
            "win_rate": None if corrected is None else corrected.mean,
            "low": None if corrected is None else _number(corrected.low),
            "high": None if corrected is None else _number(corrected.high),
            "judge_only": self.judge_only,
            "judge": self.judge,
            "people": None if self.mean is None else self.mean.people.mean,
            "votes": self.votes,
            "items": self.items,
            "weight": None if self.mean is None else self.mean.weight,
            "effective_votes": None if self.mean is None else self.mean.effective_votes,
        }


def corrected_win_rates(items: JudgedItems, level: float = 0.95, strata: Ints | None = None) -> list[CorrectedRate]:
    """The corrected win rate of every pair of models; the model that is ahead comes first.

    `strata` (N,) of the items: votes are a random part of each stratum, not necessarily of all items.
    """
    found = []
    for pair in items.pairs():
        rows = items.of_pair(pair)
        human, judge = items.human[rows], items.judge[rows]
        groups = None if strata is None else strata_with_votes(strata[rows], human)
        votes = int((~np.isnan(human)).sum())
        names = (items.models[pair[0]], items.models[pair[1]])
        ahead = (corrected_mean(human, judge, groups, level).corrected.mean if votes > 1 else judge.mean()) >= 0.5
        if not ahead:
            names, human, judge = names[::-1], 1 - human, 1 - judge
        mean = corrected_mean(human, judge, groups, level) if votes > 1 else None
        found.append(CorrectedRate(names, mean, float(judge.mean()), votes, len(judge)))
    return found


def strata_with_votes(strata: Ints, human: Floats) -> Ints | None:
    """The strata where each has enough votes, else None."""
    votes = np.bincount(strata, ~np.isnan(human))[np.unique(strata)]
    return strata if votes.min() >= FEWEST_IN_STRATUM else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
