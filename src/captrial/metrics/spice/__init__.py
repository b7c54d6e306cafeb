"""SPICE 1.0 without Java: captions -> scene graphs -> F over their tuples. See `docs/spice.md` for how near it is."""

from captrial.metrics.spice.spice import (
    CATEGORIES,
    CaptionGraph,
    SpiceState,
    caption_graph,
    counts_of_tuples,
    f_scores,
    scene_tuples,
    spice,
    spice_counts,
)

__all__ = [
    "CATEGORIES",
    "CaptionGraph",
    "SpiceState",
    "caption_graph",
    "counts_of_tuples",
    "f_scores",
    "scene_tuples",
    "spice",
    "spice_counts",
]
