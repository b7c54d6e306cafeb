"""SPICE 1.0 without Java: captions -> scene graphs -> F over their tuples. See `docs/spice.md` for how near it is."""

from captrial.metrics.spice.match import CATEGORIES, f_scores
from captrial.metrics.spice.state import SpiceState, counts_of_tuples, spice, spice_counts
from captrial.metrics.spice.tuples import SentenceGraph, scene_tuples, sentence_graph

__all__ = [
    "CATEGORIES",
    "SentenceGraph",
    "SpiceState",
    "counts_of_tuples",
    "f_scores",
    "scene_tuples",
    "sentence_graph",
    "spice",
    "spice_counts",
]
