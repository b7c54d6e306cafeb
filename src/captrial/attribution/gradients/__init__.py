"""What gradient methods share: gradients of all words along a path, and ReLUs with other derivatives."""

from captrial.attribution.gradients.path_gradients import PathGradients, input_gradients, zero_path
from captrial.attribution.gradients.relus import AveragedRelus, RecordedRelus, ReluMode

__all__ = ["AveragedRelus", "PathGradients", "RecordedRelus", "ReluMode", "input_gradients", "zero_path"]
