"""The result of a competition under one metric: P, F and the ranking, with intervals; changes against external scores.

Uncertainty is measured by the Bayesian bootstrap over labelled images: in every replicate each image gets one random
exponential weight, shared by all D_ij that hold it, so that dependence between pairs is kept. Weights are never zero;
document frequencies stay fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.compete.ranking.bradley_terry import Strengths, fit_bradley_terry, wins_by_metric
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import (
    Dominance,
    pairwise_dominance,
    ranking_vector,
    ranking_vectors,
    ranks,
    ratios,
)
from captrial.errors import InputError
from captrial.metrics.significance.bootstrap import exponential_weights, percentile_bounds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ExternalScores = Mapping[str, Mapping[str, float]]  # model -> metric -> score


@dataclass(frozen=True)
class RankingReplicates:
    """The ranking in every bootstrap replicate."""

    scores: Floats  # (replicates, m) ranking vectors
    ranks: Ints  # (replicates, m)
    beats: Floats  # (m, m) share of replicates with f_ij > 1; ties count half; NaN on the diagonal and without labels

    def score_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Percentile interval of each model's score: two arrays (m,)."""
        low, high = percentile_bounds(self.scores, level)
        return low, high

    def rank_interval(self, level: float = 0.95) -> tuple[Ints, Ints]:
        """Percentile interval of each model's rank: two arrays (m,) of ranks that occurred."""
        low, high = percentile_bounds(self.ranks.astype(np.float64), level, method="inverted_cdf").astype(np.int64)
        return low, high

    def first(self) -> Floats:
        """(m,) the share of replicates in which each model is first."""
        return np.asarray((self.ranks == 1).mean(axis=0))


@dataclass(frozen=True)
class RankingResult:
    """Everything `captrial compete rank` reports about one metric."""

    metric: str
    models: tuple[str, ...]
    dominance: Dominance
    scores: Floats  # (m,) the ranking vector of Eq. 7
    ranks: Ints  # (m,)
    replicates: RankingReplicates
    strengths: Strengths  # Bradley-Terry on image-level wins
    level: float
    notes: tuple[str, ...]

    @property
    def order(self) -> list[int]:
        """Model indices, best first."""
        return [int(index) for index in np.argsort(self.ranks)]

    def rows(self) -> list[dict[str, Any]]:
        """The ranking, best first, with intervals."""
        low, high = self.replicates.score_interval(self.level)
        rank_low, rank_high = self.replicates.rank_interval(self.level)
        first, beaten = self.replicates.first(), ranks(self.strengths.strength)
        return [
            {
                "model": self.models[index],
                "score": float(self.scores[index]),
                "low": float(low[index]),
                "high": float(high[index]),
                "rank": int(self.ranks[index]),
                "rank_low": int(rank_low[index]),
                "rank_high": int(rank_high[index]),
                "first": float(first[index]),
                "bradley_terry": float(self.strengths.strength[index]),
                "bradley_terry_rank": int(beaten[index]),
            }
            for index in self.order
        ]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `compete rank --json`; scripts rely on metric, models, p, f and ranking."""
        return {
            "metric": self.metric,
            "models": list(self.models),
            "p": _nullable(self.dominance.p),
            "f": _nullable(self.dominance.f),
            "ranking": self.rows(),
            "beats": _nullable(self.replicates.beats),
            "added": self.dominance.added,
            "notes": list(self.notes),
        }


def rank_models(pairwise: PairwiseScores, replicates: int = 1000, seed: int = 0, level: float = 0.95) -> RankingResult:
    """Rank the models by their pairwise scores; intervals come from `replicates` bootstrap replicates."""
    matrices = pairwise_dominance(pairwise.matrix())
    scores = ranking_vector(matrices.f, pairwise.models)
    return RankingResult(
        metric=pairwise.metric,
        models=pairwise.models,
        dominance=matrices,
        scores=scores,
        ranks=ranks(scores),
        replicates=bootstrap(pairwise, replicates, seed),
        strengths=fit_bradley_terry(wins_by_metric(pairwise)),
        level=level,
        notes=(*_coverage_notes(pairwise), *_single_note(pairwise), *_smoothing_note(matrices)),
    )


def bootstrap(pairwise: PairwiseScores, replicates: int = 1000, seed: int = 0) -> RankingReplicates:
    """Rank `replicates` times with random image weights; the same seed gives the same result."""
    weights = exponential_weights(replicates, len(pairwise.images), seed)
    f = ratios(pairwise.matrix(weights))
    scores = ranking_vectors(f)
    beats = np.where(np.isnan(f[0]), np.nan, (f > 1).mean(axis=0) + 0.5 * (f == 1).mean(axis=0))
    np.fill_diagonal(beats, np.nan)
    return RankingReplicates(scores, ranks(scores), beats)


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


def rank_changes(result: RankingResult, external: ExternalScores) -> dict[str, tuple[int, int, int]]:
    """External rank, rank here, and their difference (Wan 2022 Tables 3-4) of the models with an external score."""
    metric = result.metric
    known = [name for name in result.models if metric in external.get(name, {})]
    old = ranks(np.array([external[name][metric] for name in known]))
    new = ranks(np.array([result.scores[result.models.index(name)] for name in known]))
    return {name: (int(was), int(now), int(was - now)) for name, was, now in zip(known, old, new, strict=True)}


def _coverage_notes(pairwise: PairwiseScores) -> list[str]:
    """Say which pairs are labelled only in part: they count with the labels they have."""
    partly = [pair for pair in pairwise.pairs if len(pair.images) < pair.wanted]
    if not partly:
        return []
    worst = min(partly, key=lambda pair: len(pair.images))
    names = " and ".join(pairwise.models[model] for model in worst.models)
    empty = sum(not len(pair.images) for pair in partly)
    unknown = f", {empty} of them not at all (they are filled in from the other pairs)" if empty else ""
    return [
        f"{len(partly)} of {len(pairwise.pairs)} pairs are not fully labelled{unknown}; "
        f"fewest: {names}, {len(worst.images)} of {worst.wanted} images"
    ]


def _single_note(pairwise: PairwiseScores) -> list[str]:
    """Weighting a single image changes nothing, so that its pair adds nothing to an interval."""
    single = int((pairwise.labelled == 1).sum())
    if not single:
        return []
    return [f"{single} of {len(pairwise.pairs)} pairs have one labelled image, over which there is no interval"]


def _smoothing_note(matrices: Dominance) -> list[str]:
    if not matrices.added:
        return []
    return [f"some scores are 0: {matrices.added:.3g} was added to every p before taking ratios"]


def _nullable(matrix: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]
