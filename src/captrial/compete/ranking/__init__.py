"""From labels to a ranking: scores of all pairs (`pair_scores`), ratios (`dominance`), ranking vector (`perron`).

`result` puts them together with bootstrap intervals; `bradley_terry` ranks by single wins and by people's judgements.
"""

from captrial.compete.ranking.bradley_terry import (
    MetricAgreement,
    Strengths,
    bradley_terry,
    metric_agreement,
    rank_by_judgements,
    wins_by_metric,
)
from captrial.compete.ranking.dominance import Dominance, dominance, ratios
from captrial.compete.ranking.pair_scores import PairImages, PairScorer, PairStatistics, PairwiseScores
from captrial.compete.ranking.perron import connected, ranking_vector, ranking_vectors, ranks
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
    "bradley_terry",
    "connected",
    "dominance",
    "metric_agreement",
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
