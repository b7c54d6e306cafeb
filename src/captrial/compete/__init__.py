"""Maximum discrepancy competition (Wan 2022): rank captioners on your images with few labels.

`Competition` is the whole procedure in a directory. Its parts can be used alone: `storage` (the directory's files),
`selection` (the images on which captions differ most), `ranking` (pairwise scores to a ranking with intervals) and
`analysis` (stability, flip report, label planner, repetition, statistics).

Names are imported when first used, so that the command line can read the registry without numba and pyarrow.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.compete.competition import Competition
    from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
    from captrial.compete.ranking.preferences import PreferenceResult, rank_preferences
    from captrial.compete.ranking.result import RankingResult, rank_models
    from captrial.compete.selection.discrepancy import SearchOptions, select
    from captrial.compete.selection.ngram_similarity import PairwiseSimilarity, ngsm
    from captrial.compete.selection.registry import SIMILARITIES
    from captrial.compete.storage.caption_pool import CaptionPool
    from captrial.compete.storage.judgements import Judgement, read_judgements
    from captrial.compete.storage.labels import Labels
    from captrial.compete.storage.manifest import SelectionSettings
    from captrial.compete.storage.selection_files import ActiveSelection, PairSelection

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
    "PreferenceResult",
    "RankingResult",
    "SearchOptions",
    "SelectionSettings",
    "ngsm",
    "rank_models",
    "rank_preferences",
    "read_judgements",
    "select",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "competition": "Competition",
        "ranking.pair_scores": "PairScorer PairwiseScores",
        "ranking.preferences": "PreferenceResult rank_preferences",
        "ranking.result": "RankingResult rank_models",
        "selection.ngram_similarity": "PairwiseSimilarity ngsm",
        "selection.registry": "SIMILARITIES",
        "selection.discrepancy": "SearchOptions select",
        "storage.caption_pool": "CaptionPool",
        "storage.judgements": "Judgement read_judgements",
        "storage.labels": "Labels",
        "storage.manifest": "SelectionSettings",
        "storage.selection_files": "ActiveSelection PairSelection",
    },
)
