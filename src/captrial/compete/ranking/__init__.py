"""From labels to a ranking: scores of all pairs (`pair_scores`), their ratios and the ranking vector (`perron`).

`estimates` has the mean scores over the whole pool, `intervals` the uncertainty of both, and `result` puts them
together. `preferences` ranks by judgements, with `bradley_terry`.

Names are imported when first used: a ranking by references does not load that by preferences.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.compete.ranking.agreement_with_people import MetricAgreement, metric_agreement
    from captrial.compete.ranking.bradley_terry import Strengths, fit_bradley_terry, wins_by_metric
    from captrial.compete.ranking.estimates import PoolSample, pool_estimate
    from captrial.compete.ranking.intervals import JointEstimate, Uncertainty, uncertainty
    from captrial.compete.ranking.pair_scores import LabelDesign, PairImages, PairScorer, PairStatistics, PairwiseScores
    from captrial.compete.ranking.perron import (
        Dominance,
        connected,
        pairwise_dominance,
        ranking_vector,
        ranking_vectors,
        ranks,
        ratios,
    )
    from captrial.compete.ranking.preferences import PreferenceResult, rank_preferences
    from captrial.compete.ranking.result import (
        PoolRanking,
        RankingResult,
        rank_changes,
        rank_models,
        rank_pool,
        read_external_scores,
    )

__all__ = [
    "Dominance",
    "JointEstimate",
    "LabelDesign",
    "MetricAgreement",
    "PairImages",
    "PairScorer",
    "PairStatistics",
    "PairwiseScores",
    "PoolRanking",
    "PoolSample",
    "PreferenceResult",
    "RankingResult",
    "Strengths",
    "Uncertainty",
    "connected",
    "fit_bradley_terry",
    "metric_agreement",
    "pairwise_dominance",
    "pool_estimate",
    "rank_changes",
    "rank_models",
    "rank_pool",
    "rank_preferences",
    "ranking_vector",
    "ranking_vectors",
    "ranks",
    "ratios",
    "read_external_scores",
    "uncertainty",
    "wins_by_metric",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "agreement_with_people": "MetricAgreement metric_agreement",
        "bradley_terry": "Strengths fit_bradley_terry wins_by_metric",
        "estimates": "PoolSample pool_estimate",
        "intervals": "JointEstimate Uncertainty uncertainty",
        "pair_scores": "LabelDesign PairImages PairScorer PairStatistics PairwiseScores",
        "perron": "Dominance connected pairwise_dominance ranking_vector ranking_vectors ranks ratios",
        "preferences": "PreferenceResult rank_preferences",
        "result": "PoolRanking RankingResult rank_changes rank_models rank_pool read_external_scores",
    },
)
