"""Similarity, selection, dominance, ranking; stability; repetition."""

from captrial.compete.chosen import ActiveSelection
from captrial.compete.competition import Competition
from captrial.compete.pool import CaptionPool
from captrial.compete.selection import PairSelection, select
from captrial.compete.similarity import Similarity, similarity
from captrial.compete.state import SelectionSettings
from captrial.compete.verdict import Verdict, verdict

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
