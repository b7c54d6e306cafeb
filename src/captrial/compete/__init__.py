"""Maximum discrepancy competition (Wan 2022): rank captioners on your images with few labels.

`Competition` is the whole procedure in a directory. Its parts can be used alone: `storage` (the directory's files),
`selection` (the images on which captions differ most), `ranking` (pairwise scores to a ranking with intervals) and
`analysis` (stability, flip report, label planner, repetition, statistics).

Names are imported when first used, so that the command line can read the registry without numba and pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.compete.competition import Competition
    from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
    from captrial.compete.ranking.result import RankingResult, rank_models
    from captrial.compete.selection.ngram_similarity import PairwiseSimilarity, ngsm
    from captrial.compete.selection.registry import SIMILARITIES
    from captrial.compete.selection.selection import SearchOptions, select
    from captrial.compete.storage.caption_pool import CaptionPool
    from captrial.compete.storage.labels import Judgement, Labels
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
    "RankingResult",
    "SearchOptions",
    "SelectionSettings",
    "ngsm",
    "rank_models",
    "select",
]
_MODULES = {
    "ActiveSelection": "storage.selection_files",
    "CaptionPool": "storage.caption_pool",
    "Competition": "competition",
    "Judgement": "storage.labels",
    "Labels": "storage.labels",
    "PairScorer": "ranking.pair_scores",
    "PairSelection": "storage.selection_files",
    "PairwiseScores": "ranking.pair_scores",
    "PairwiseSimilarity": "selection.ngram_similarity",
    "RankingResult": "ranking.result",
    "SIMILARITIES": "selection.registry",
    "SearchOptions": "selection.selection",
    "SelectionSettings": "storage.manifest",
    "ngsm": "selection.ngram_similarity",
    "rank_models": "ranking.result",
    "select": "selection.selection",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
