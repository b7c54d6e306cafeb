"""Similarity, selection, dominance, ranking; stability; repetition."""

from captrial.compete.competition import Competition
from captrial.compete.ranking.result import Verdict, verdict
from captrial.compete.selection.ngram_similarity import Similarity, similarity
from captrial.compete.selection.selection import PairSelection, select
from captrial.compete.storage.caption_pool import CaptionPool
from captrial.compete.storage.manifest import SelectionSettings
from captrial.compete.storage.selection_files import ActiveSelection

__all__ = [
    "ActiveSelection",
    "CaptionPool",
    "Competition",
    "PairSelection",
    "SelectionSettings",
    "Similarity",
    "Verdict",
    "select",
    "similarity",
    "verdict",
]
