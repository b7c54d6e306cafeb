"""Confidence intervals by bootstrap over images, paired tests between systems, and a gate, on the corpus metric."""

from captrial.metrics.significance.bootstrap import (
    Interval,
    confidence_intervals,
    exponential_weights,
    percentile_bounds,
    resamples,
)
from captrial.metrics.significance.non_inferiority import GateResult, GateSettings, check_not_worse
from captrial.metrics.significance.paired import Comparison, compare, holm

__all__ = [
    "Comparison",
    "GateResult",
    "GateSettings",
    "Interval",
    "check_not_worse",
    "compare",
    "confidence_intervals",
    "exponential_weights",
    "holm",
    "percentile_bounds",
    "resamples",
]
