"""SPICE 1.0 without Java: captions -> scene graphs -> F over their tuples. See `docs/spice.md` for how near it is."""

from captrial.metrics.spice.spice import (
    CATEGORIES,
    SentenceGraph,
    SpiceState,
    counts_of_tuples,
    f_scores,
    scene_tuples,
    sentence_graph,
    spice,
    spice_counts,
)

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
