"""SPICE 1.0 without Java: captions -> scene graphs -> F over their tuples. See `docs/spice.md` for how near it is.

The metric is the function `captrial.metrics.spice`; here are its parts, imported when first used.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.metrics.spice.spice import (
        CATEGORIES,
        CaptionGraph,
        SpiceState,
        caption_graph,
        counts_of_tuples,
        f_scores,
        scene_tuples,
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
    "spice_counts",
]

__getattr__ = lazy_exports(__name__, {"spice": " ".join(__all__)})
