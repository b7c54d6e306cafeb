"""The result of a competition under one metric, for both targets, with intervals; changes against external scores.

*discrepancy* (`rank_models`): who is better where the models differ most. P, F and the ranking vector q of Eq. 7 (Wan
2022). Where D_ij is labelled in part, each labelled image counts by the inverse of its probability to be labelled. The
uncertainty of log q is that of the jackknife over images (Quenouille 1956; Tukey 1958): one image is left out of every
D_ij that holds it, document frequencies stay fixed.

*pool* (`rank_pool`): who is better on the whole pool, the mean score over all of its images (see `estimates`).

While a set is labelled in part, intervals are about this set: they end in a point when all of it is labelled. When it
is complete, they are about other images like these (`population` says which).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.compete.ranking.bradley_terry import Strengths, fit_bradley_terry, wins_by_metric
from captrial.compete.ranking.estimates import PoolSample, pool_estimate
from captrial.compete.ranking.intervals import (
    FEWEST,
    SUPPORT,
    JointEstimate,
    Uncertainty,
    effective_number,
    mid_ranks,
    student_quantile,
    uncertainty,
)
from captrial.compete.ranking.pair_scores import PairScorer, PairStatistics, PairwiseScores
from captrial.compete.ranking.perron import Dominance, connection, pairwise_dominance, ranking_vectors, ratios
from captrial.errors import InputError, StateError
from captrial.metrics.registry import column_title, scale_of
from captrial.result_table import ResultTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ENOUGH = 10  # labels that give intervals whatever their weights
ExternalScores = Mapping[str, Mapping[str, float]]  # model -> metric -> score
RankChange = tuple[float, float, float]  # external rank, rank here, difference; whole numbers where there is no tie

POPULATIONS = {
    "labelled set": "intervals are about the set that is labelled in part: they shrink to a point as it is completed",
    "similar images": "all images are labelled; intervals are about other images like these",
}


@dataclass(frozen=True, repr=False)
class RankingResult(ResultTable):
    """Everything `captrial compete rank` reports about one metric where captions differ most."""

    metric: str
    models: tuple[str, ...]
    dominance: Dominance
    scores: Floats  # (m,) the ranking vector of Eq. 7; NaN for a model that no labels connect with the others
    uncertainty: Uncertainty  # of the scores; differences are those of log scores
    f_low: Floats  # (m, m) interval of f_ij; NaN where there is none
    f_high: Floats  # (m, m)
    strengths: Strengths  # Bradley-Terry on image-level wins; NaN as in `scores`
    level: float
    population: str  # of POPULATIONS
    table: str  # document frequencies
    notes: tuple[str, ...]
    values: tuple[float, ...] = ()  # (m,) the metric itself on each model's own selected images; see `with_values`

    @cached_property
    def ranks(self) -> Floats:
        """(m,) rank 1 is best; ties share the mean of their ranks."""
        return mid_ranks(self.scores)

    @property
    def order(self) -> list[int]:
        """Model indices, best first."""
        return best_first(self.ranks)

    def rows(self) -> list[dict[str, Any]]:
        """The ranking, best first, with intervals."""
        beaten = mid_ranks(self.strengths.strength)
        rows = ranking_rows(self.models, self.scores, self.uncertainty)
        for row in rows:
            index = self.models.index(row["model"])
            strength = self.strengths.strength[index]
            row["bradley_terry"] = _known(strength)
            row["bradley_terry_rank"] = _rank(beaten[index])
            row["value"] = _known(self.values[index]) if self.values else None
        return rows

    def conclusion(self) -> str:
        """The result in one sentence."""
        return conclusion(self.rows(), f"by {column_title(self.metric)}, on the images where captions differ most")

    def to_json(self) -> dict[str, Any]:
        """The JSON of `compete rank --json`; scripts rely on metric, models, p, f and ranking."""
        return {
            "metric": self.metric,
            "models": list(self.models),
            "p": _nullable(self.dominance.p),
            "f": _nullable(self.dominance.f),
            "f_low": _nullable(self.f_low),
            "f_high": _nullable(self.f_high),
            "ranking": self.rows(),
            "beats": _nullable(self.uncertainty.beats),
            "added": self.dominance.added,
            "population": self.population,
            "document_frequencies": self.table,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, repr=False)
class PoolRanking(ResultTable):
    """The mean scores over the whole pool with intervals, from a sample of it."""

    metric: str
    models: tuple[str, ...]
    estimate: JointEstimate
    uncertainty: Uncertainty
    means: Floats  # (m,) plain means over the labelled images: biased for the pool
    labels: int  # images that were used
    images: int  # in the pool
    population: str
    table: str
    notes: tuple[str, ...]

    @property
    def order(self) -> list[int]:
        """Model indices, best first."""
        return best_first(mid_ranks(self.estimate.value))

    def rows(self) -> list[dict[str, Any]]:
        """The ranking, best first, with intervals: the keys of `RankingResult`, and the plain mean with its rank."""
        places = mid_ranks(self.means)
        rows = ranking_rows(self.models, self.estimate.value, self.uncertainty)
        for row in rows:
            index = self.models.index(row["model"])
            row["mean"], row["mean_rank"] = _known(self.means[index]), _rank(places[index])
        return rows

    def table_rows(self) -> list[dict[str, Any]]:
        """The same, the metric on the scale on which tables show it (CIDEr x100)."""
        factor, _ = scale_of(self.metric)
        values = ("score", "low", "high", "mean")
        return [
            row | {key: row[key] if row[key] is None else factor * row[key] for key in values} for row in self.rows()
        ]

    def conclusion(self) -> str:
        """The result in one sentence."""
        return conclusion(self.rows(), f"by {column_title(self.metric)}, on the whole pool")

    def to_json(self) -> dict[str, Any]:
        """What the pool target adds to the JSON of `compete rank --json`."""
        return {
            "pool": self.rows(),
            "pool_labels": self.labels,
            "pool_images": self.images,
            "pool_population": self.population,
            "pool_document_frequencies": self.table,
            "pool_beats": _nullable(self.uncertainty.beats),
            "pool_notes": list(self.notes),
        }


def ranking_rows(models: Sequence[str], scores: Floats, found: Uncertainty) -> list[dict[str, Any]]:
    """One dictionary a model, best first; None where there is no value or no interval."""
    places = mid_ranks(scores)
    return [
        {
            "model": models[index],
            "score": _known(scores[index]),
            "low": _known(found.low[index]),
            "high": _known(found.high[index]),
            "rank": _rank(places[index]),
            "rank_low": int(found.rank_low[index]) if found.ranked and not np.isnan(scores[index]) else None,
            "rank_high": int(found.rank_high[index]) if found.ranked and not np.isnan(scores[index]) else None,
            "first": _known(found.first[index]) if found.ranked else None,
        }
        for index in best_first(places)
    ]


def conclusion(rows: Sequence[Mapping[str, Any]], where: str) -> str:
    """Who is best, and who may be, from rows of a ranking.

    >>> row = {"model": "a", "rank": 1, "rank_low": 1, "rank_high": 1, "first": 0.99}
    >>> conclusion([row, {"model": "b", "rank": 2, "rank_low": 2, "rank_high": 2, "first": 0.01}], "by CIDEr")
    'a is the best of 2 captioners by CIDEr: no other reaches rank 1 in 95% intervals.'
    """
    best, among = rows[0], f"{len(rows)} captioners {where}"
    known, tied = best["rank_low"] is not None, [row["model"] for row in rows if row["rank"] == best["rank"]]
    others = [row["model"] for row in rows if row["rank_low"] == 1 and row["model"] not in tied]
    if len(tied) > 1:
        found = f"{_listed(tied)} share the first place among {among}: their scores are the same"
        if not known:
            return f"{found}; there are too few labels to say how sure that is."
        return f"{found}{f', and {_listed(others)} may be as good' if others else ''}."
    if not known:
        return f"{best['model']} comes first of {among}; there are too few labels to say how sure that is."
    if not others:
        return f"{best['model']} is the best of {among}: no other reaches rank 1 in 95% intervals."
    return (
        f"{best['model']} comes first of {among}, in {best['first']:.0%} of resamples, but {_listed(others)} may be as "
        "good: more labels would tell."
    )


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def with_values(result: RankingResult, scorer: PairScorer) -> RankingResult:
    """The ranking with the metric itself beside the ranking score."""
    values = (scorer.score_on_own_images(result.metric, model) for model in range(len(result.models)))
    return replace(result, values=tuple(values))


def best_first(places: Floats) -> list[int]:
    """Model indices by rank; models without one come last."""
    return [int(index) for index in np.argsort(places, kind="stable")]


def rank_models(pairwise: PairwiseScores, level: float = 0.95, seed: int = 0) -> RankingResult:
    """Rank the models where they differ most (Eq. 7), by the labels there are."""
    names, m = pairwise.models, len(pairwise.models)
    matrices = pairwise_dominance(pairwise.matrix(pairwise.weights[None])[0])
    ranked = connection(matrices.f)  # (m,) models that labelled pairs connect
    if ranked.sum() < 2:
        raise StateError("no two models have labelled images in common; label more images first")
    among = pairwise.among(ranked)
    finite = not among.complete
    estimate = ranking_estimate(among, finite)
    found = uncertainty(estimate, level, seed)
    scores = np.full(m, np.nan)
    scores[ranked] = np.exp(estimate.value)
    f_low, f_high = dominance_intervals(pairwise, level, finite)
    return RankingResult(
        metric=pairwise.metric,
        models=names,
        dominance=matrices,
        scores=scores,
        uncertainty=_spread_out(_of_scores(found, estimate), ranked),
        f_low=f_low,
        f_high=f_high,
        strengths=_strengths(pairwise, ranked),
        level=level,
        population="labelled set" if finite else "similar images",
        table=pairwise.table,
        notes=(*_coverage_notes(pairwise, ranked), *_interval_notes(among, found), *_smoothing_note(matrices)),
    )


def rank_pool(
    metric: str, models: Sequence[str], scores: Floats, sample: PoolSample, table: str = "", level: float = 0.95
) -> PoolRanking:
    """Rank the models on the whole pool from the scores (n, m) of the labelled images of a sample."""
    finite = not sample.complete
    estimate = pool_estimate(scores, sample, finite)
    found = uncertainty(estimate, level)
    return PoolRanking(
        metric=metric,
        models=tuple(models),
        estimate=estimate,
        uncertainty=found,
        means=scores.mean(axis=0),
        labels=len(scores),
        images=sample.images,
        population="labelled set" if finite else "similar images",
        table=table,
        notes=tuple(_pool_interval_notes(models, estimate, found, len(scores))),
    )


def ranking_estimate(pairwise: PairwiseScores, finite: bool) -> JointEstimate:
    """log q with the jackknife's terms: what leaving out one image changes."""
    value, terms = _jackknife(pairwise, finite)
    own = [len({image for pair in pairwise.pairs if model in pair.models for image in pair.images.tolist()})
           for model in range(len(pairwise.models))]  # fmt: skip
    labels = float(np.mean(own))
    weakest = min(pair_support(pairwise, pair) for pair in pairwise.pairs if len(pair.images))
    if float(np.mean(pairwise.labelled[pairwise.labelled > 0])) < FEWEST:
        weakest = 0.0
    support = np.full(len(value), weakest)  # every score of Eq. 7 depends on every ratio
    return JointEstimate(value, terms, terms, labels, labels, support)


def pair_support(pairwise: PairwiseScores, pair: PairStatistics) -> float:
    """From how many labels the weaker of the two scores on D_ij comes."""
    return float(effective_number(pairwise.pair_weights(pair)[:, None] * np.nan_to_num(pair.per_image)).min())


def dominance_intervals(pairwise: PairwiseScores, level: float, finite: bool) -> tuple[Floats, Floats]:
    """Intervals of every f_ij: two matrices (m, m), NaN where none can be given."""
    m = len(pairwise.models)
    low, high = np.full((m, m), np.nan), np.full((m, m), np.nan)
    kept = _kept(pairwise, finite)
    for pair in pairwise.pairs:
        uncertain = int((kept[pair.images] > 0).sum())
        n = uncertain or len(pair.images)  # labels that the variance rests on
        if n < FEWEST or pair_support(pairwise, pair) < SUPPORT:
            continue
        weights = np.tile(pairwise.weights, (len(pair.images) + 1, 1))
        weights[np.arange(len(pair.images)), pair.images] = 0.0  # the last row leaves none out
        totals = np.tensordot(pairwise.pair_weights(pair, weights), pair.statistics, axes=1)  # (n + 1, 2, s)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(pairwise.value(totals))  # (n + 1, 2)
        ratio = logs[:, 0] - logs[:, 1]
        terms = (ratio[:-1] - ratio[-1]) * np.sqrt((n - 1) / n) * kept[pair.images]
        half = student_quantile(level, n) * np.sqrt((terms**2).sum())
        if np.isfinite(half):
            i, j = pair.models
            low[i, j], high[i, j] = np.exp(ratio[-1] - half), np.exp(ratio[-1] + half)
            low[j, i], high[j, i] = 1 / high[i, j], 1 / low[i, j]
    return low, high


def _kept(pairwise: PairwiseScores, finite: bool) -> Floats:
    """(images,) what is left of an image's part of the error in a finite set: sqrt(1 - pi)."""
    if not finite or pairwise.probability is None:
        return np.ones(len(pairwise.images))
    return np.sqrt(1 - pairwise.probability)


def _jackknife(pairwise: PairwiseScores, finite: bool) -> tuple[Floats, Floats]:
    """log q (m,), and by how much it changes without each labelled image (n, m), scaled to add up to its variance."""
    used = np.flatnonzero(pairwise.membership.any(axis=1))
    weights = np.tile(pairwise.weights, (len(used) + 1, 1))
    weights[np.arange(len(used)), used] = 0.0
    p = pairwise.matrix(weights)
    logs = np.log(ranking_vectors(ratios(p)))
    typical = max(float(np.mean(pairwise.labelled[pairwise.labelled > 0])), 1.0)  # labels of a pair
    terms = (logs[:-1] - logs[-1]) * np.sqrt((typical - 1) / typical)
    terms = terms * _kept(pairwise, finite)[used, None]
    return logs[-1], np.nan_to_num(terms, nan=np.inf)


def read_external_scores(path: Path, metric: str = "cider") -> ExternalScores:
    """Read scores that models have on other data, to compare a ranking with.

    The file holds what `captrial score --json` printed, or `{model: score}`, whose numbers are scores of `metric`.
    """
    try:
        table = orjson.loads(path.read_bytes())
        return {
            name: {key: float(number) for key, number in value.items() if isinstance(number, int | float)}
            if isinstance(value, dict)
            else {metric: float(value)}
            for name, value in table.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f'{path}: not a table of scores like {{"model": {{"cider": 1.2}}}} ({error})') from None


def rank_changes(result: RankingResult, external: ExternalScores) -> dict[str, RankChange]:
    """External rank, rank here, and their difference (Wan 2022 Tables 3-4) of the models with an external score.

    Ties share the mean of their ranks.
    """
    metric = result.metric
    ranked = {name for name, score in zip(result.models, result.scores, strict=True) if not np.isnan(score)}
    known = [name for name in result.models if metric in external.get(name, {}) and name in ranked]
    old = mid_ranks(np.array([external[name][metric] for name in known]))
    new = mid_ranks(np.array([result.scores[result.models.index(name)] for name in known]))
    return {name: (_place(was), _place(now), _place(was - now)) for name, was, now in zip(known, old, new, strict=True)}


def _strengths(pairwise: PairwiseScores, ranked: NDArray[np.bool_]) -> Strengths:
    """Bradley-Terry among the ranked models: strengths of others mean nothing beside theirs."""
    found = fit_bradley_terry(wins_by_metric(pairwise.among(ranked)))
    strength, error = np.full((2, len(ranked)), np.nan)
    strength[ranked], error[ranked] = found.strength, found.error
    return Strengths(strength, error, wins_by_metric(pairwise))


def _of_scores(found: Uncertainty, estimate: JointEstimate) -> Uncertainty:
    """Intervals of the scores q from those of log q, on the scale of log q - log(1 - q), which keeps them in (0, 1)."""
    q = np.minimum(np.exp(estimate.value), 1 - 1e-12)  # 1 where every other score is nothing beside it
    half = (found.high - found.low) / 2 / (1 - q)
    middle = estimate.value - np.log1p(-q)
    return replace(found, low=1 / (1 + np.exp(half - middle)), high=1 / (1 + np.exp(-half - middle)))


def _spread_out(found: Uncertainty, ranked: NDArray[np.bool_]) -> Uncertainty:
    """The intervals of all models: nothing is known of those that are not ranked."""
    m = len(ranked)

    def vector(values: Floats) -> Floats:
        whole = np.full(m, np.nan)
        whole[ranked] = values
        return whole

    def matrix(values: Floats) -> Floats:
        whole = np.full((m, m), np.nan)
        whole[np.ix_(ranked, ranked)] = values
        return whole

    given = np.zeros(m, np.bool_)
    given[ranked] = found.given
    return Uncertainty(
        low=vector(found.low),
        high=vector(found.high),
        rank_low=np.nan_to_num(vector(found.rank_low.astype(float)), nan=1).astype(np.int64),
        rank_high=np.nan_to_num(vector(found.rank_high.astype(float)), nan=m).astype(np.int64),
        first=vector(found.first),
        beats=matrix(found.beats),
        difference_low=matrix(found.difference_low),
        difference_high=matrix(found.difference_high),
        given=given,
        ranked=found.ranked,
    )


def _coverage_notes(pairwise: PairwiseScores, ranked: NDArray[np.bool_]) -> list[str]:
    """Say which pairs are labelled only in part, and which models cannot be ranked yet."""
    notes = []
    partly = [pair for pair in pairwise.pairs if len(pair.images) < pair.wanted]
    if partly:
        worst = min(partly, key=lambda pair: len(pair.images))
        names = " and ".join(pairwise.models[model] for model in worst.models)
        empty = sum(not len(pair.images) for pair in partly)
        unknown = f", {empty} of them not at all (they are filled in from the other pairs)" if empty else ""
        notes.append(
            f"{len(partly)} of {len(pairwise.pairs)} pairs are not fully labelled{unknown}; "
            f"fewest: {names}, {len(worst.images)} of {worst.wanted} images"
        )
    for model in np.flatnonzero(~ranked):
        own = [pair for pair in pairwise.pairs if model in pair.models]
        notes.append(
            f"{pairwise.models[model]} has no number yet: its own images need labels, about "
            f"{sum(min(ENOUGH, pair.wanted) for pair in own)} of them for a first one"
        )
    return notes


def _interval_notes(pairwise: PairwiseScores, found: Uncertainty) -> list[str]:
    """Say why Eq. 7 has no intervals, and how many labels it would take; `pairwise` is of the ranked models."""
    if found.ranked and found.given.all():
        return []
    known = [pair for pair in pairwise.pairs if len(pair.images)]
    typical = float(np.mean([len(pair.images) for pair in known]))
    if not found.ranked or typical < FEWEST:
        what = "no interval for any score" if found.ranked else "no intervals"
        larger = f" (`select --k {ENOUGH}` or more)" if max(pair.wanted for pair in known) < ENOUGH else ""
        return [
            f"{what}: a pair has {typical:.2g} labelled image{'' if typical == 1 else 's'} on average; "
            f"it takes about {ENOUGH} of each pair{larger}"
        ]
    pair = min(known, key=lambda each: pair_support(pairwise, each))
    own = effective_number(pairwise.pair_weights(pair)[:, None] * np.nan_to_num(pair.per_image))
    weaker = int(np.argmin(own))
    i, j = pair.models[weaker], pair.models[1 - weaker]
    return [
        f"no interval for any score: {_sources(pairwise.models[i], float(own[weaker]), len(pair.images))} of its "
        f"pair with {pairwise.models[j]}, and every score of Eq. 7 depends on that ratio"
    ]


def _pool_interval_notes(names: Sequence[str], estimate: JointEstimate, found: Uncertainty, labels: int) -> list[str]:
    """Say which scores on the pool have no interval, and how many labels it would take."""
    if not found.ranked or estimate.labels < FEWEST:
        what = "no interval for any score" if found.ranked else "no intervals"
        fewest = max(min(estimate.labels, estimate.pair_labels), 1.0)
        needed = max(ENOUGH, math.ceil(labels * estimate.fewest / fewest))
        counted = "1 label" if labels == 1 else f"{labels} labels count like {fewest:.2g} random ones"
        return [f"{what}: {counted}; it takes about {needed} labels"]
    return [
        f"no interval for {name}: {_sources(name, float(support), labels)}"
        for name, support, given in zip(names, estimate.support, found.given, strict=True)
        if not given
    ]


def _sources(name: str, support: float, labels: int) -> str:
    """From how few labelled images a score comes, and how many labels it would take at that rate."""
    if not support > 0:
        return f"{name} scores 0 on all {labels} labelled images"
    needed = math.ceil(labels * SUPPORT / support)
    return (
        f"{name}'s score comes from about {support:.2g} of {labels} labelled images; "
        f"it takes {needed} labelled images or more"
    )


def _smoothing_note(matrices: Dominance) -> list[str]:
    if not matrices.added:
        return []
    return [f"some scores are 0: {matrices.added:.3g} was added to every p before taking ratios"]


def _nullable(matrix: Floats) -> list[list[float | None]]:
    return [[_known(value) for value in row] for row in matrix]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _rank(place: float) -> int | float | None:
    """A rank for people and scripts: whole where it is no tie."""
    return None if np.isnan(place) else _place(place)


def _place(place: float) -> int | float:
    return int(place) if place == int(place) else float(place)
