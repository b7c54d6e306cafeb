"""How often metrics prefer the caption that a person preferred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
from captrial.compete.ranking.preferences import PreferenceResult
from captrial.compete.storage.judgements import Judgement
from captrial.metrics.significance.bootstrap import exponential_weights, percentile_bounds

COMMON_METRICS = ("cider", "rouge_l", "bleu_4")  # whose agreement with people is shown beside the metric asked for


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Kendall's tau of a metric with people: (agreeing - disagreeing) / judgements that name a winner."""

    metric: str
    tau: float  # NaN without judgements
    low: float  # NaN with fewer than two images
    high: float
    judgements: int  # that name a winner and whose image the metric has scored
    left_out: int


def metric_agreement(
    pairwise: PairwiseScores,
    judgements: Sequence[Judgement],
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> MetricAgreement:
    """How often a metric prefers the caption that a person preferred; the interval resamples images.

    While D is labelled in part, an image counts by the inverse of its probability to be labelled, as in `rank_models`.
    """
    preferred = _preferred_by_metric(pairwise)
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
    stands_for = dict(zip(pairwise.images, pairwise.weights.tolist(), strict=True))
    each = np.array([stands_for[image] for image in by_image])
    sums = each * np.array([sum(values) for values in by_image.values()])
    counts = each * np.array([len(values) for values in by_image.values()], float)
    tau = float(sums.sum() / counts.sum()) if len(sums) else np.nan
    low = high = np.nan
    used = sum(map(len, by_image.values()))
    if len(sums) > 1:
        weights = exponential_weights(replicates, len(sums), seed)
        low, high = percentile_bounds((weights @ sums) / (weights @ counts), level)
    return MetricAgreement(pairwise.metric, tau, float(low), float(high), used, left_out)


def judgement_summary(
    result: PreferenceResult, judgements: Sequence[Judgement], scorer: PairScorer, metric: str
) -> dict[str, Any]:
    """The ranking by judgements, and the agreement of `metric` and of common metrics with them."""
    metrics = dict.fromkeys([metric, *COMMON_METRICS])
    agreement = [
        asdict(metric_agreement(scorer.score(name, frequencies=scorer.frequencies), judgements)) for name in metrics
    ]
    return {**result.to_json(), "agreement": agreement}


def _preferred_by_metric(pairwise: PairwiseScores) -> dict[tuple[str, str, str], float]:
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
