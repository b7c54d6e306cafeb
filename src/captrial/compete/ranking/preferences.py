"""What people preferred, caption against caption: a ranking of its own, and a judge of the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.bootstrap import exponential_weights
from captrial.compete.ranking.bradley_terry import Strengths, fit
from captrial.compete.ranking.evidence import Evidence
from captrial.compete.storage.labels import Judgement

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Kendall's tau of a metric with people: (agreeing - disagreeing) / judgements that name a winner."""

    metric: str
    tau: float  # NaN without judgements
    low: float  # NaN over fewer than two images
    high: float
    judgements: int  # that name a winner and whose image the metric has scored
    left_out: int


def ranking_by_people(models: Sequence[str], judgements: Sequence[Judgement]) -> Strengths:
    """Bradley-Terry strengths from people's preferences; a tie is half a win for each."""
    index = {name: number for number, name in enumerate(models)}
    wins = np.zeros((len(models), len(models)))
    for judgement in judgements:
        i, j = index[judgement.first], index[judgement.second]
        wins[i, j] += judgement.outcome
        wins[j, i] += 1 - judgement.outcome
    return fit(wins)


def agreement(
    evidence: Evidence, judgements: Sequence[Judgement], replicates: int = 1000, seed: int = 0, level: float = 0.95
) -> Agreement:
    """How often a metric prefers the caption that a person preferred; the interval resamples images."""
    preferred = _preferences(evidence)
    by_image: dict[str, list[float]] = {}
    left_out = 0
    for judgement in judgements:
        if judgement.outcome == 0.5:
            continue
        value = preferred.get((judgement.image, judgement.first, judgement.second))
        if value is None:
            left_out += 1
            continue
        by_image.setdefault(judgement.image, []).append(value * (1 if judgement.outcome else -1))
    sums = np.array([sum(values) for values in by_image.values()])
    counts = np.array([len(values) for values in by_image.values()], float)
    tau = float(sums.sum() / counts.sum()) if len(sums) else np.nan
    low = high = np.nan
    if len(sums) > 1:
        weights = exponential_weights(replicates, len(sums), seed)
        low, high = np.quantile((weights @ sums) / (weights @ counts), [(1 - level) / 2, (1 + level) / 2])
    return Agreement(evidence.metric, tau, float(low), float(high), int(counts.sum()), left_out)


def _preferences(evidence: Evidence) -> dict[tuple[str, str, str], float]:
    """(image, model, other) -> 1 where the metric prefers the model's caption, -1 the other's, 0 neither.

    Images on which the metric does not speak are left out.
    """
    found: dict[tuple[str, str, str], float] = {}
    for pair in evidence.pairs:
        first, second = (evidence.models[model] for model in pair.models)
        signs = np.sign(pair.per_image[:, 0] - pair.per_image[:, 1])
        spoken = ~np.isnan(signs)
        for image, sign in zip(pair.images[spoken].tolist(), signs[spoken].tolist(), strict=True):
            found[evidence.images[image], first, second] = sign
            found[evidence.images[image], second, first] = -sign
    return found
