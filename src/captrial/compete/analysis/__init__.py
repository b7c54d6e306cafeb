"""Analyses of a competition beside its ranking.

- `stability`: is k large enough? The top-k ranking against the full one.
- `flip`: the fewest images whose removal changes the winner.
- `planner`: is the winner on the whole pool settled; if not, how many more labels it will probably take.
- `preference_analysis`: sensitivity and stop for judgements.
- `confidence_sequence`: bounds that hold whenever one looks, for stop rules.
- `repetition`: captions with one word several times in a row.
- `statistics`: annotations, classes of images, and which models were right.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.compete.analysis.flip import FlipReport, flip_report
    from captrial.compete.analysis.planner import LabelPlan, ModelComparison, PlanSettings, plan_labels
    from captrial.compete.analysis.preference_analysis import JudgementPlan, flip_judgements, plan_judgements
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
    "JudgementPlan",
    "LabelPlan",
    "ModelComparison",
    "ModelRepetition",
    "PairOutcome",
    "PlanSettings",
    "Stability",
    "annotation_statistics",
    "class_distribution",
    "find_repetition",
    "flip_judgements",
    "flip_report",
    "measure_stability",
    "pair_outcomes",
    "plan_judgements",
    "plan_labels",
    "right_threshold",
    "spearman",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "flip": "FlipReport flip_report",
        "planner": "LabelPlan ModelComparison PlanSettings plan_labels",
        "preference_analysis": "JudgementPlan flip_judgements plan_judgements",
        "repetition": "ModelRepetition find_repetition",
        "stability": "Stability measure_stability spearman",
        "statistics": "AnnotationStatistics PairOutcome annotation_statistics class_distribution pair_outcomes "
        "right_threshold",
    },
)
