"""METEOR 1.5 for English as COCO uses it, without Java: the same matches, alignment, statistics and scores."""

from captrial.metrics.meteor.meteor import MeteorState, meteor, meteor_corpus, meteor_scores, meteor_stats
from captrial.metrics.meteor.resources import MeteorResources

__all__ = ["MeteorResources", "MeteorState", "meteor", "meteor_corpus", "meteor_scores", "meteor_stats"]
