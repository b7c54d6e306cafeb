"""Means with bootstrap intervals over images, when an image may add several values or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.significance.bootstrap import REPLICATES, interval, resamples

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, its percentile interval, and over how much it is.

    All are None where there is nothing; the interval is where all values are of one image.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "count": self.count}

    def show(self, factor: float = 1.0, decimals: int = 3) -> str:
        """`0.384 ±0.010` (half of the interval); a dash for each of the two that is not there."""
        if self.value is None:
            return "–"
        mean = f"{factor * self.value:.{decimals}f}"
        if self.low is None or self.high is None:
            return f"{mean} ±–"
        return f"{mean} ±{factor * (self.high - self.low) / 2:.{decimals}f}"


def estimate(
    images: Sequence[object], values: Floats, *, replicates: int = REPLICATES, seed: int = 0, level: float = 0.95
) -> list[Estimate]:
    """Means over the rows of `values` (n, m) that are not NaN, a column each; images are resampled, not rows.

    `images` (n,) says whose row it is. All columns share the resamples, so their differences are paired: give the
    difference as a column of its own.
    """
    if not len(values):
        return [Estimate(None, None, None, 0)] * values.shape[1]
    _, rows = np.unique(np.asarray(images, dtype=str), return_inverse=True)
    there = ~np.isnan(values)
    sums, counts = (_by_image(part, rows) for part in (np.where(there, values, 0.0), there.astype(np.float64)))
    drawn = [_ratio(weights @ sums, weights @ counts) for weights in resamples(len(sums), replicates, seed)]
    means, spread = _ratio(sums.sum(0), counts.sum(0)), np.concatenate(drawn)
    found = []
    for column, mean in enumerate(means):
        if np.isnan(mean):
            found.append(Estimate(None, None, None, 0))
            continue
        count = int(there[:, column].sum())
        if (counts[:, column] > 0).sum() == 1:  # however often one image is drawn, it says the same
            found.append(Estimate(float(mean), None, None, count))
            continue
        limits = interval(spread[:, column], level)
        found.append(Estimate(float(mean), limits.low, limits.high, count))
    return found


def _by_image(values: Floats, rows: NDArray[np.intp]) -> Floats:
    sums = np.zeros((int(rows.max()) + 1, values.shape[1]))
    np.add.at(sums, rows, values)
    return sums


def _ratio(sums: Floats, counts: Floats) -> Floats:
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.nan)
