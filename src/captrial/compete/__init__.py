"""Maximum discrepancy competition (Wan 2022): rank captioners on your images with few labels.

`Competition` is the whole procedure in a directory. Its parts can be used alone: `storage` (the directory's files),
`selection` (the images on which captions differ most), `ranking` (pairwise scores to a ranking with intervals) and
`analysis` (stability, flip report, label planner, repetition, statistics).
"""

from captrial.compete.competition import Competition
from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
from captrial.compete.ranking.result import RankingResult, rank_models
from captrial.compete.selection.ngram_similarity import PairwiseSimilarity, ngram_similarity
from captrial.compete.selection.registry import SIMILARITIES
from captrial.compete.selection.selection import PairSelection, SearchOptions, select
from captrial.compete.storage.caption_pool import CaptionPool
from captrial.compete.storage.labels import Judgement, Labels
from captrial.compete.storage.manifest import SelectionSettings
from captrial.compete.storage.selection_files import ActiveSelection

__all__ = [
    "SIMILARITIES",
    "ActiveSelection",
    "CaptionPool",
    "Competition",
    "Judgement",
    "Labels",
    "PairScorer",
    "PairSelection",
    "PairwiseScores",
    "PairwiseSimilarity",
    "RankingResult",
    "SearchOptions",
    "SelectionSettings",
    "ngram_similarity",
    "rank_models",
    "select",
]
