"""Confidence intervals by bootstrap over images, and paired tests between systems, on the corpus metric itself."""

from captrial.metrics.significance.bootstrap import (
    Interval,
    confidence_intervals,
    exponential_weights,
    percentile_bounds,
    resamples,
)
from captrial.metrics.significance.paired import Comparison, compare, holm

__all__ = [
    "Comparison",
    "Interval",
    "compare",
    "confidence_intervals",
    "exponential_weights",
    "holm",
    "percentile_bounds",
    "resamples",
]
