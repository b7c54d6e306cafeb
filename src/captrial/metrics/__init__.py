"""One file a metric."""

from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import MeanState, Metric, Scores, State

__all__ = ["Corpus", "MeanState", "Metric", "Scores", "State"]
