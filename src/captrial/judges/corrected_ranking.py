"""Bradley-Terry strengths and ranks by a machine judge on many items, corrected by the votes of people on a few.

Davidson's model (`captrial.compete.ranking.bradley_terry`) is fitted three times: to the votes of people, to the
judge's verdicts on the same items, and to its verdicts on all items. The corrected strengths are

    people - w (judge on the items with votes - judge on all items)

where w is the slope of the influence of images on the strengths by people on that by the judge, without the image it
weights (PPI++ of Angelopoulos, Duchi and Zrnic 2023, for an M-estimator). Whatever the judge prefers cancels: its two
fits estimate the same. Images are the unit: the covariance is that of the differences of influences, plus w^2 times
that of the judge's strengths over all images. As much variance as `PRIOR_VOTES` votes a free strength, by people alone,
is mixed in: the judge may be right on all of a few votes by chance.

Where votes are a random part of each stratum of the design, not of all items, a vote has the weight of the items of its
stratum that it stands for, in the fits to items with votes; without strata, or with too few votes in one, all weights
are 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from captrial.compete import Judgement, PreferenceResult, rank_preferences
from captrial.compete.ranking.bradley_terry import DavidsonFit, fit_davidson
from captrial.compete.ranking.preferences import PreferenceSettings
from captrial.errors import StateError
from captrial.judges.corrected_sequence import VotePlan, plan_votes
from captrial.judges.correction import (
    FEWEST_VOTES,
    JUDGE_ONLY,
    PRIOR_VOTES,
    CorrectedRate,
    JudgedItems,
    corrected_win_rates,
    judged_items,
    strata_with_votes,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TINY = 1e-12


@dataclass(frozen=True)
class CorrectedFit(DavidsonFit):
    """Corrected strengths, with the whole covariance of the correction in the place of both of Davidson's fit."""

    @property
    def robust(self) -> Floats:
        """The covariance; clusters are in it already."""
        return self.covariance

    def half_widths(self, combinations: Floats, tail: float, freedom: Ints) -> Floats:
        """Half widths (k,) of intervals of combinations (k, m + 1); the mixed-in votes stand for few degrees."""
        variance = np.einsum("kp,pq,kq->k", combinations, self.covariance, combinations)
        return np.asarray(-ndtri(tail) * np.sqrt(np.maximum(variance, 0.0)))


@dataclass(frozen=True)
class CorrectedRanking:
    """The ranking, and beside it those by people alone and by the judge alone."""

    corrected: PreferenceResult
    people: PreferenceResult
    judge: PreferenceResult
    items: JudgedItems
    weight: float
    effective_votes: float

    @property
    def votes(self) -> int:
        """Items with a vote and a verdict."""
        return int(self.items.voted.sum())


def rank_corrected(
    people: Sequence[Judgement],
    verdicts: Sequence[Judgement],
    level: float = 0.95,
    seed: int = 0,
    strata: Ints | None = None,
) -> CorrectedRanking:
    """Rank models by one judge's verdicts, corrected by votes of people on a random part of its items.

    `strata` (N,) numbers those of `judged_items(people, verdicts)`: votes are a random part of each of them.
    """
    items = judged_items(people, verdicts)
    judge = rank_preferences(verdicts, models=items.models, level=level, seed=seed)
    voted = set(_keys(items, np.flatnonzero(items.voted)))
    own = [one for one in people if _key(one) in voted]
    if len(voted) < 2:
        raise StateError(
            f"{JUDGE_ONLY}: people voted on {len(voted)} of {len(items.judge)} items that the judge judged; have a "
            "random part judged by people"
        )
    alone = rank_preferences(own, models=items.models, level=level, seed=seed)
    checked = rank_preferences([one for one in verdicts if _key(one) in voted], models=items.models)
    groups = None if strata is None else strata_with_votes(strata, items.human)
    if groups is not None:
        weights = _item_weights(items, groups)
        alone, checked = (_weighted(one, weights) for one in (alone, checked))
    fit, weight = _corrected_fit(alone, checked, judge, (len(voted), len(items.judge)))
    settings = PreferenceSettings((), level, seed, FEWEST_VOTES)
    corrected = PreferenceResult(alone.models, alone.images, alone.comparisons, fit, settings)
    size = len(items.models)
    gained = float(np.trace(alone.fit.joint) / max(np.trace(fit.covariance[:size, :size]), _TINY))
    return CorrectedRanking(corrected, alone, judge, items, weight, len(voted) * gained)


def _corrected_fit(
    alone: PreferenceResult, checked: PreferenceResult, judge: PreferenceResult, counts: tuple[int, int]
) -> tuple[CorrectedFit, float]:
    votes, items = counts
    place = {image: row for row, image in enumerate(checked.images)}
    by_people = alone.fit.influence  # (images, m + 1)
    by_judge = checked.fit.influence[[place[image] for image in alone.images]]
    size = len(alone.models)
    weights = _weights(by_people[:, :size], by_judge[:, :size], votes / items)
    weight = float(weights.mean())
    moved = np.append(checked.fit.strength - judge.fit.strength, _tie_difference(checked.fit, judge.fit))
    found = np.append(alone.fit.strength, alone.fit.log_nu) - weight * moved
    found += ((weight - weights)[:, None] * by_judge).sum(axis=0)
    rest = by_people - weights[:, None] * by_judge
    count = len(rest)
    spread = (count - 1) / count * rest.T @ rest
    prior = PRIOR_VOTES * (size - 1)
    spread = (votes * spread + prior * alone.fit.covariance) / (votes + prior)
    covariance = spread + weight**2 * judge.fit.robust
    return CorrectedFit(found[:size], np.zeros(0), float(found[-1]), covariance, lambda: rest), weight


def _tie_difference(checked: DavidsonFit, judge: DavidsonFit) -> float:
    both = np.isfinite(checked.log_nu) and np.isfinite(judge.log_nu)
    return checked.log_nu - judge.log_nu if both else 0.0  # without ties there is nothing to correct


def _weights(by_people: Floats, by_judge: Floats, share: float) -> Floats:
    """(images,) slopes of the influences on the strengths, each without its own image."""
    across, own = (by_people * by_judge).sum(axis=1), (by_judge**2).sum(axis=1)
    prior = PRIOR_VOTES / max(len(own), 1) * own.sum()  # votes of a judge that follows nobody
    others = (own.sum() - own) * (1 + share) + prior
    return np.asarray(np.where(others > _TINY, (across.sum() - across) / np.maximum(others, _TINY), 0.0))


def _item(image: str, first: str, second: str) -> tuple[str, str, str]:
    return (image, first, second) if first < second else (image, second, first)


def _key(one: Judgement) -> tuple[str, str, str]:
    return _item(one.image, one.first, one.second)


def _keys(items: JudgedItems, rows: Ints) -> list[tuple[str, str, str]]:
    """Image and two models of some items."""
    return [(items.images[items.image[r]], items.models[items.first[r]], items.models[items.second[r]]) for r in rows]


def _item_weights(items: JudgedItems, strata: Ints) -> dict[tuple[str, str, str], float]:
    """By item with a vote: how many items of its stratum it stands for, on average 1."""
    all_items, votes = (np.bincount(strata, counted) for counted in (None, items.voted))
    voted = np.flatnonzero(items.voted)
    weights = (all_items / np.maximum(votes, 1))[strata[voted]]
    return dict(zip(_keys(items, voted), (weights / weights.mean()).tolist(), strict=True))


def _weighted(found: PreferenceResult, weights: Mapping[tuple[str, str, str], float]) -> PreferenceResult:
    """The ranking in which items count by their weights; several verdicts on an item share its weight."""
    data = found.comparisons
    names = zip(data.cluster, data.first, data.second, strict=True)
    keys = [_item(found.images[image], found.models[i], found.models[j]) for image, i, j in names]
    weighted = replace(data, counts=np.array([weights[key] for key in keys]) / data.repeats)
    return replace(found, comparisons=weighted, fit=fit_davidson(weighted))


# Everything about one judge -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JudgeResult:
    """What can be said by one judge's verdicts and the votes of people: `captrial judge rank`.

    Without votes `ranking` is that of the judge alone, and `judge_only` is set.
    """

    judge: str
    ranking: PreferenceResult | None  # None where votes do not connect the models
    details: CorrectedRanking | None
    rates: tuple[CorrectedRate, ...]
    plan: VotePlan | None
    votes: int
    items: int
    notes: list[str] = field(default_factory=list)

    @property
    def judge_only(self) -> bool:
        """Whether people checked nothing."""
        return self.plan is None

    def to_json(self) -> dict[str, Any]:
        """As `captrial judge rank --json`."""
        details = self.details
        return {
            "judge": self.judge,
            "judge_only": self.judge_only,
            "votes": self.votes,
            "items": self.items,
            "weight": None if details is None else details.weight,
            "effective_votes": None if details is None else details.effective_votes,
            "ranking": None if self.ranking is None else self.ranking.rows(),
            "people": None if details is None else details.people.rows(),
            "judge_alone": None if details is None else details.judge.rows(),
            "pairs": [rate.to_json() for rate in self.rates],
            "stop": None if self.plan is None else {**asdict(self.plan), "summary": self.plan.summary()},
            "notes": self.notes,
        }


def rank_by_judge(
    people: Sequence[Judgement],
    verdicts: Sequence[Judgement],
    judge: str,
    risk: float = 0.05,
    unchecked: bool = False,
    for_people: Mapping[tuple[str, str, str], int] | None = None,
) -> JudgeResult:
    """Rank, compare pairs and apply the stop rule; a `StateError` without votes, unless `unchecked` is allowed.

    `for_people` are the items (image and two models, in the order of names) on which people could vote, with their
    strata. Judged items beside them are left out where nobody voted on any of them: votes are no random part of these.
    """
    verdicts, notes = _could_be_voted_on(people, verdicts, for_people)
    items = judged_items(people, verdicts)
    votes = int(items.voted.sum())
    if items.without_verdict:
        notes.append(f"{items.without_verdict} items that people voted on have no verdict and do not count")
    strata = None if for_people is None else _strata(items, for_people)
    rates = tuple(corrected_win_rates(items, 1 - risk, strata))
    if votes < 2:
        if not unchecked:
            raise StateError(
                f"{JUDGE_ONLY}: people voted on {votes} of {len(items.judge)} items that {judge} judged, so nothing is "
                "known about its errors; have a random part judged by people, or see its own ranking by --judge-only"
            )
        alone = rank_preferences(verdicts, models=items.models, level=1 - risk)
        notes.append(f"{JUDGE_ONLY}: nobody checked {judge}; its intervals leave out its errors")
        return JudgeResult(judge, alone, None, rates, None, votes, len(items.judge), notes)
    details = None
    try:
        details = rank_corrected(people, verdicts, 1 - risk, strata=strata)
    except StateError as error:
        notes.append(f"no ranking yet: {error}")
    notes += _notes(rates)
    ranking = None if details is None else details.corrected
    return JudgeResult(
        judge, ranking, details, rates, plan_votes(people, verdicts, risk), votes, len(items.judge), notes
    )


def _could_be_voted_on(
    people: Sequence[Judgement], verdicts: Sequence[Judgement], for_people: Mapping[tuple[str, str, str], int] | None
) -> tuple[Sequence[Judgement], list[str]]:
    others = set() if for_people is None else {_key(one) for one in verdicts} - set(for_people)
    if not people or not others or not others.isdisjoint(map(_key, people)):
        return verdicts, []
    note = (
        f"{len(others)} judged items are left out: they are not selected or sampled, so people could not vote on them"
    )
    return [one for one in verdicts if _key(one) not in others], [note]


def _strata(items: JudgedItems, for_people: Mapping[tuple[str, str, str], int]) -> Ints:
    """(N,) of the items; those that are not for people are a stratum of their own."""
    keys = _keys(items, np.arange(len(items.judge)))
    return np.array([for_people.get(key, 2) for key in keys], np.int64)


def _notes(rates: Sequence[CorrectedRate]) -> list[str]:
    notes = []
    unchecked = [" and ".join(rate.models) for rate in rates if rate.judge_only]
    if unchecked:
        notes.append(f"{JUDGE_ONLY}, fewer than 2 votes: {', '.join(unchecked[:5])}{' ...' * (len(unchecked) > 5)}")
    apart = [" and ".join(rate.models) for rate in rates if rate.mean is not None and not rate.mean.random]
    if apart:
        notes.append(
            f"votes do not look like a random part of what was judged ({', '.join(apart[:5])}); the correction "
            "is valid for a random part only"
        )
    return notes
