"""Rankings from single comparisons of two captions of one image, and how far metrics and people agree on them.

`bradley_terry` fits strengths to wins. Wins come from a metric (`wins_by_metric`: a cross-check of the ranking by
ratios, which ignores how large the differences are) or from people's judgements (`rank_by_judgements`, from
`judgements.jsonl`). `metric_agreement` is Kendall's tau of a metric with these judgements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
from captrial.compete.ranking.perron import ranks
from captrial.compete.storage.labels import Judgement
from captrial.metrics.significance.bootstrap import exponential_weights, percentile_bounds

Floats = NDArray[np.float64]

COMMON_METRICS = ("cider", "rouge_l", "bleu_4")  # whose agreement with people is shown beside the metric asked for
_PRIOR = 0.5  # wins added to both sides of every pair that met: a model that never lost keeps a finite strength


@dataclass(frozen=True)
class Strengths:
    """Fitted strengths: model i beats j with probability `strength[i] / (strength[i] + strength[j])`."""

    strength: Floats  # (m,) summing to 1
    error: Floats  # (m,) standard error of log strength (relative to the mean)
    wins: Floats  # (m, m) wins of i over j; a tie is half a win for each


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Kendall's tau of a metric with people: (agreeing - disagreeing) / judgements that name a winner."""

    metric: str
    tau: float  # NaN without judgements
    low: float  # NaN with fewer than two images
    high: float
    judgements: int  # that name a winner and whose image the metric has scored
    left_out: int


def fit_bradley_terry(wins: Floats) -> Strengths:
    """Maximum likelihood by Hunter's minorisation, with half a win added to both sides of every pair that met.

    >>> fit_bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).strength.round(3)
    array([0.7, 0.3])
    """
    met = wins + wins.T > 0
    won = wins + _PRIOR * met
    games = won + won.T
    strength = np.full(len(wins), 1.0 / len(wins))
    for _ in range(10_000):
        pulled = (games / (strength[:, None] + strength[None, :])).sum(axis=1)
        updated = np.where(pulled > 0, won.sum(axis=1) / np.where(pulled > 0, pulled, 1.0), strength)
        updated /= updated.sum()
        change = float(np.abs(updated - strength).max())
        strength = updated
        if change < 1e-14:
            break
    return Strengths(strength, _standard_errors(strength, games), wins)


def wins_by_metric(pairwise: PairwiseScores) -> Floats:
    """Wins (m, m) on the labelled images of every D_ij; equal scores are half a win each."""
    wins = np.zeros((len(pairwise.models), len(pairwise.models)))
    for pair in pairwise.pairs:
        first, second = pair.per_image.T
        known = ~np.isnan(first + second)
        ties = 0.5 * float((first[known] == second[known]).sum())
        i, j = pair.models
        wins[i, j] += float((first[known] > second[known]).sum()) + ties
        wins[j, i] += float((first[known] < second[known]).sum()) + ties
    return wins


def rank_by_judgements(models: Sequence[str], judgements: Sequence[Judgement]) -> Strengths:
    """Bradley-Terry strengths from people's judgements; a tie is half a win for each."""
    index = {name: number for number, name in enumerate(models)}
    wins = np.zeros((len(models), len(models)))
    for judgement in judgements:
        i, j = index[judgement.first], index[judgement.second]
        wins[i, j] += judgement.outcome
        wins[j, i] += 1 - judgement.outcome
    return fit_bradley_terry(wins)


def metric_agreement(
    pairwise: PairwiseScores,
    judgements: Sequence[Judgement],
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> MetricAgreement:
    """How often a metric prefers the caption that a person preferred; the interval resamples images."""
    preferred = _preferences(pairwise)
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
        low, high = percentile_bounds((weights @ sums) / (weights @ counts), level)
    return MetricAgreement(pairwise.metric, tau, float(low), float(high), int(counts.sum()), left_out)


def judgement_summary(
    models: Sequence[str], judgements: Sequence[Judgement], scorer: PairScorer, metric: str
) -> dict[str, Any]:
    """The ranking by judgements, and the agreement of `metric` and of common metrics with them; empty without any."""
    if not judgements:
        return {}
    strength = rank_by_judgements(models, judgements).strength
    places = ranks(strength)
    metrics = dict.fromkeys([metric, *COMMON_METRICS])
    return {
        "judgements": len(judgements),
        "ranking": [
            {"model": name, "strength": float(strength[index]), "rank": int(places[index])}
            for index, name in enumerate(models)
        ],
        "agreement": [asdict(metric_agreement(scorer.score(name), judgements)) for name in metrics],
    }


def _standard_errors(strength: Floats, games: Floats) -> Floats:
    """From the inverse Fisher information of the log strengths, whose sum is held at zero."""
    share = strength[:, None] / (strength[:, None] + strength[None, :])
    information = -games * share * (1 - share)
    np.fill_diagonal(information, 0.0)
    np.fill_diagonal(information, -information.sum(axis=1))
    return np.sqrt(np.maximum(np.diag(np.linalg.pinv(information)), 0.0))


def _preferences(pairwise: PairwiseScores) -> dict[tuple[str, str, str], float]:
    """(image, model, other) -> 1 where the metric prefers the model's caption, -1 the other's, 0 neither.

    Images on which the metric is undefined are left out.
    """
    found: dict[tuple[str, str, str], float] = {}
    for pair in pairwise.pairs:
        first, second = (pairwise.models[model] for model in pair.models)
        signs = np.sign(pair.per_image[:, 0] - pair.per_image[:, 1])
        known = ~np.isnan(signs)
        for image, sign in zip(pair.images[known].tolist(), signs[known].tolist(), strict=True):
            found[pairwise.images[image], first, second] = sign
            found[pairwise.images[image], second, first] = -sign
    return found
