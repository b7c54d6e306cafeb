"""METEOR 1.5 for English as COCO uses it, without Java: the same matches, alignment, statistics and scores."""

from captrial.metrics.meteor.resources import MeteorResources
from captrial.metrics.meteor.score import meteor_corpus, meteor_scores
from captrial.metrics.meteor.state import MeteorState, meteor
from captrial.metrics.meteor.stats import meteor_stats

__all__ = ["MeteorResources", "MeteorState", "meteor", "meteor_corpus", "meteor_scores", "meteor_stats"]
