"""The result of a competition under one metric: P, F, the ranking, and how sure each part of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.bootstrap import Replicates, bootstrap
from captrial.compete.ranking.bradley_terry import Strengths, fit, wins_by_metric
from captrial.compete.ranking.dominance import Dominance, dominance
from captrial.compete.ranking.evidence import Evidence
from captrial.compete.ranking.perron import ranking_vector, ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Verdict:
    """Everything `captrial compete rank` reports about one metric."""

    metric: str
    models: tuple[str, ...]
    dominance: Dominance
    scores: Floats  # (m,) the ranking vector of Eq. 7
    ranks: Ints  # (m,)
    replicates: Replicates
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
        """The shape that scripts rely on: metric, models, p, f, ranking; and what else is known."""
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


def verdict(evidence: Evidence, replicates: int = 1000, seed: int = 0, level: float = 0.95) -> Verdict:
    """Rank the models by the labels there are."""
    matrices = dominance(evidence.scores())
    scores = ranking_vector(matrices.f, evidence.models)
    return Verdict(
        metric=evidence.metric,
        models=evidence.models,
        dominance=matrices,
        scores=scores,
        ranks=ranks(scores),
        replicates=bootstrap(evidence, replicates, seed),
        strengths=fit(wins_by_metric(evidence)),
        level=level,
        notes=(*_coverage_notes(evidence), *_single_note(evidence), *_smoothing_note(matrices)),
    )


def rank_changes(found: Verdict, old: Mapping[str, float]) -> dict[str, tuple[int, int, int]]:
    """Old rank, new rank and old - new (Wan 2022 Tables 3-4) of the models that an older table of scores knows."""
    known = [name for name in found.models if name in old]
    before = ranks(np.array([old[name] for name in known]))
    new_scores = np.array([found.scores[found.models.index(name)] for name in known])
    after = ranks(new_scores)
    return {name: (int(was), int(now), int(was - now)) for name, was, now in zip(known, before, after, strict=True)}


def _coverage_notes(evidence: Evidence) -> list[str]:
    """Partly labelled pairs count with what they have, and this says so."""
    partly = [pair for pair in evidence.pairs if len(pair.images) < pair.wanted]
    if not partly:
        return []
    worst = min(partly, key=lambda pair: len(pair.images))
    names = " and ".join(evidence.models[model] for model in worst.models)
    empty = sum(not len(pair.images) for pair in partly)
    unknown = f", {empty} of them not at all (they are filled in from the other pairs)" if empty else ""
    return [
        f"{len(partly)} of {len(evidence.pairs)} pairs are not fully labelled{unknown}; "
        f"fewest: {names}, {len(worst.images)} of {worst.wanted} images"
    ]


def _single_note(evidence: Evidence) -> list[str]:
    """However one image is weighed, it says the same: it adds nothing to an interval."""
    single = int((evidence.labelled == 1).sum())
    if not single:
        return []
    return [f"{single} of {len(evidence.pairs)} pairs have one labelled image, over which there is no interval"]


def _smoothing_note(matrices: Dominance) -> list[str]:
    if not matrices.added:
        return []
    return [f"some scores are 0: {matrices.added:.3g} was added to every p before taking ratios"]


def _nullable(matrix: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]
