"""Metrics from learned embeddings: semantic, facts and unsupported words from sentence embeddings; CLIPScore.

The functions `semantic` and `facts` are exported by `captrial.metrics`, because modules here have their names. Names
are imported when first used.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.metrics.semantic.clipscore import clip_score
    from captrial.metrics.semantic.facts import fact_reports
    from captrial.metrics.semantic.unsupported_words import unsupported

__all__ = ["clip_score", "fact_reports", "unsupported"]

__getattr__ = lazy_exports(
    __name__, {"clipscore": "clip_score", "facts": "fact_reports", "unsupported_words": "unsupported"}
)
