"""From labels to a ranking: scores of all pairs (`pair_scores`), their ratios and the ranking vector (`perron`).

`result` puts them together with bootstrap intervals; `bradley_terry` ranks by single wins and by people's judgements.
"""

from captrial.compete.ranking.bradley_terry import (
    MetricAgreement,
    Strengths,
    fit_bradley_terry,
    metric_agreement,
    rank_by_judgements,
    wins_by_metric,
)
from captrial.compete.ranking.pair_scores import PairImages, PairScorer, PairStatistics, PairwiseScores
from captrial.compete.ranking.perron import (
    Dominance,
    connected,
    pairwise_dominance,
    ranking_vector,
    ranking_vectors,
    ranks,
    ratios,
)
from captrial.compete.ranking.result import (
    RankingReplicates,
    RankingResult,
    bootstrap,
    rank_changes,
    rank_models,
    read_external_scores,
)

__all__ = [
    "Dominance",
    "MetricAgreement",
    "PairImages",
    "PairScorer",
    "PairStatistics",
    "PairwiseScores",
    "RankingReplicates",
    "RankingResult",
    "Strengths",
    "bootstrap",
    "connected",
    "fit_bradley_terry",
    "metric_agreement",
    "pairwise_dominance",
    "rank_by_judgements",
    "rank_changes",
    "rank_models",
    "ranking_vector",
    "ranking_vectors",
    "ranks",
    "ratios",
    "read_external_scores",
    "wins_by_metric",
]
