"""Bootstrap over images: resampling weights, percentile intervals, and intervals of corpus metrics.

Every metric's state has additive statistics (n, s) (see `captrial.metrics.scores`), so a resample of the images is a
row of weights and all resamples are one matrix product. The same resamples serve every metric and system, which makes
differences between systems paired. Document frequencies of CIDEr stay fixed.

Two kinds of weights: `resamples` draws n images with replacement; `exponential_weights` is the Bayesian bootstrap,
whose weights are never zero, for statistics that are undefined without some images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError
from captrial.metrics.scores import State

Floats = NDArray[np.float64]
Replicates = dict[str, Floats]
QuantileMethod = Literal["linear", "inverted_cdf"]
K = TypeVar("K")
REPLICATES = 1000
CELLS = 4_000_000  # of the matrix of weights held at once: bounds memory, not results


@dataclass(frozen=True)
class Interval:
    """The percentile interval of a corpus value over resamples, and its standard deviation over them."""

    low: float
    high: float
    standard_error: float
    level: float = 0.95


def confidence_intervals(
    state: State, replicates: int = REPLICATES, seed: int = 0, level: float = 0.95
) -> dict[str, Interval]:
    """Percentile intervals of a metric and its parts."""
    values = replicate_scores({"": state}, replicates, seed)[""]
    return {name: interval(value, level) for name, value in values.items()}


def replicate_scores(states: Mapping[K, State], replicates: int = REPLICATES, seed: int = 0) -> dict[K, Replicates]:
    """Corpus values (replicates,) by name, for each of several states over the same images."""
    statistics = {key: state.statistics() for key, state in states.items()}
    totals = weighted_totals(statistics, resamples(image_count(statistics), replicates, seed))
    return {key: state.corpus_scores(totals[key]) for key, state in states.items()}


def weighted_totals(statistics: Mapping[K, Floats], blocks: Iterator[Floats]) -> dict[K, Floats]:
    """(rows of all blocks, s): sums of each table (n, s) weighted by the rows of the blocks (some, n)."""
    together = np.concatenate([*statistics.values()], axis=1)
    totals = np.concatenate([weights @ together for weights in blocks])
    ends = np.cumsum([table.shape[1] for table in statistics.values()])
    return dict(zip(statistics, np.split(totals, ends[:-1], axis=1), strict=True))


def image_count(statistics: Mapping[K, Floats]) -> int:
    """The number of images of all tables, which must be the same."""
    sizes = {len(table) for table in statistics.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise InputError(f"systems must be scored on the same images, at least one; here on {sorted(sizes)}")
    return sizes.pop()


def resamples(n: int, replicates: int, seed: int = 0) -> Iterator[Floats]:
    """Blocks (some, n) of weights: how often each image was drawn when n were drawn with replacement."""
    rng = np.random.default_rng(seed)
    rows = max(1, CELLS // max(n, 1))
    for start in range(0, replicates, rows):
        size = min(rows, replicates - start)
        drawn = rng.integers(n, size=(size, n), dtype=np.int32) + np.arange(size)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


def exponential_weights(replicates: int, images: int, seed: int) -> Floats:
    """Weights (replicates, images) of the Bayesian bootstrap: independent, exponential, of mean 1."""
    return np.random.default_rng(seed).standard_exponential((replicates, images))


def percentile_bounds(values: Floats, level: float = 0.95, method: QuantileMethod = "linear") -> Floats:
    """(2, ...): lower and upper bound over the replicates (first axis) of the interval that holds `level` of them.

    `method` is that of `np.quantile`; "inverted_cdf" gives bounds that were observed, as ranks need.
    """
    bounds: Floats = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method=method)
    return bounds


def interval(values: Floats, level: float = 0.95) -> Interval:
    """The percentile interval of replicates; those in which the metric has no value (NaN) do not count."""
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(np.nan, np.nan, np.nan, level)
    low, high = percentile_bounds(values, level)
    return Interval(float(low), float(high), float(values.std()), level)
