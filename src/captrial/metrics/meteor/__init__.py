"""METEOR 1.5 for English as COCO uses it, without Java: the same matches, alignment, statistics and scores.

The metric is the function `captrial.metrics.meteor`; here are its parts, imported when first used.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.metrics.meteor.meteor import MeteorState, meteor_corpus, meteor_scores, meteor_stats
    from captrial.metrics.meteor.resources import MeteorResources

__all__ = ["MeteorResources", "MeteorState", "meteor_corpus", "meteor_scores", "meteor_stats"]

__getattr__ = lazy_exports(
    __name__, {"meteor": "MeteorState meteor_corpus meteor_scores meteor_stats", "resources": "MeteorResources"}
)
