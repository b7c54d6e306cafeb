"""Analyses of a competition beside its ranking.

- `stability`: is k large enough? The top-k ranking against the full one.
- `flip`: the fewest images whose removal changes the winner.
- `planner`: how many more labels are needed, and which images to label next.
- `repetition`: captions with one word several times in a row.
- `statistics`: annotations, classes of images, and which models were right.
"""

from captrial.compete.analysis.flip import FlipReport, flip_report
from captrial.compete.analysis.planner import LabelPlan, PlanSettings, plan_labels
from captrial.compete.analysis.repetition import ModelRepetition, find_repetition
from captrial.compete.analysis.stability import Stability, measure_stability, spearman
from captrial.compete.analysis.statistics import (
    AnnotationStatistics,
    PairOutcome,
    annotation_statistics,
    class_distribution,
    pair_outcomes,
    right_threshold,
)

__all__ = [
    "AnnotationStatistics",
    "FlipReport",
    "LabelPlan",
    "ModelRepetition",
    "PairOutcome",
    "PlanSettings",
    "Stability",
    "annotation_statistics",
    "class_distribution",
    "find_repetition",
    "flip_report",
    "measure_stability",
    "pair_outcomes",
    "plan_labels",
    "right_threshold",
    "spearman",
]
