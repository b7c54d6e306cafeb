"""Paired tests of whether one system is better than another, on the corpus metric itself.

Two tests of the difference d = metric(A) - metric(B) on the same images, both two-sided:
- bootstrap: images are resampled, both systems together; p = twice the share of resamples on the other side of 0;
- permutation (approximate randomisation): the two captions of an image are exchanged with probability 1/2;
  p = share of exchanges with |d'| >= |d|.
Shares count the observed value itself, so p is never 0. Holm's correction bounds the chance of any false claim among
all pairs of one metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.scores import State
from captrial.metrics.significance.bootstrap import (
    CELLS,
    REPLICATES,
    Interval,
    K,
    Replicates,
    image_count,
    interval,
    replicate_scores,
    weighted_totals,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """System `first` against `second` on one metric; p-values are corrected for all pairs of this metric."""

    metric: str
    first: str
    second: str
    difference: float  # first - second
    interval: Interval
    bootstrap_p: float
    permutation_p: float


def compare(
    states: Mapping[str, Mapping[str, State]], replicates: int | None = None, seed: int = 0, level: float = 0.95
) -> list[Comparison]:
    """Every pair of systems on every metric; `states` by system, then by metric family (the same ones for each).

    By default there are enough replicates for the correction to leave a p-value of 0.02 within reach.
    """
    flat = {(system, family): state for system, of in states.items() for family, state in of.items()}
    pairs = list(combinations(states, 2))
    if not pairs or not flat:
        return []
    replicates = replicates or max(REPLICATES, 100 * len(pairs))
    resampled = replicate_scores(flat, replicates, seed)
    exchanged = _Exchanges.of(flat, replicates, seed)
    found: list[Comparison] = []
    for family in next(iter(states.values())):
        moved = [_minus(resampled[a, family], resampled[b, family]) for a, b in pairs]
        swapped = [exchanged.differences((a, family), (b, family)) for a, b in pairs]
        seen = [_minus(exchanged.observed((a, family)), exchanged.observed((b, family))) for a, b in pairs]
        for metric in seen[0]:
            columns = ([float(row[metric]) for row in seen], [r[metric] for r in moved], [r[metric] for r in swapped])
            found += _verdicts(metric, pairs, *columns, level)
    return found


def _verdicts(
    metric: str,
    pairs: Sequence[tuple[str, str]],
    observed: Sequence[float],
    moved: Sequence[Floats],
    swapped: Sequence[Floats],
    level: float,
) -> list[Comparison]:
    """The comparisons of one metric, corrected together."""
    bootstrap = holm([bootstrap_p(values) for values in moved])
    permutation = holm([permutation_p(value, values) for value, values in zip(observed, swapped, strict=True)])
    rows = zip(pairs, observed, moved, bootstrap, permutation, strict=True)
    return [Comparison(metric, *pair, value, interval(values, level), p, q) for pair, value, values, p, q in rows]


@dataclass(frozen=True)
class _Exchanges(Generic[K]):
    """Sums of every system's statistics over all images, and over the images that an exchange gives away."""

    states: Mapping[K, State]
    whole: Mapping[K, Floats]  # (s,)
    given: Mapping[K, Floats]  # (replicates, s)

    @classmethod
    def of(cls, states: Mapping[K, State], replicates: int, seed: int) -> _Exchanges[K]:
        statistics = {key: state.statistics() for key, state in states.items()}
        given = weighted_totals(statistics, _flips(image_count(statistics), replicates, seed))
        return cls(states, {key: table.sum(axis=0) for key, table in statistics.items()}, given)

    def observed(self, key: K) -> Replicates:
        return self.states[key].corpus_scores(self.whole[key])

    def differences(self, first: K, second: K) -> Replicates:
        moved = self.given[second] - self.given[first]
        one = self.states[first].corpus_scores(self.whole[first] + moved)
        other = self.states[second].corpus_scores(self.whole[second] - moved)
        return _minus(one, other)


def _minus(first: Replicates, second: Replicates) -> Replicates:
    return {name: first[name] - second[name] for name in first}


def bootstrap_p(differences: Floats) -> float:
    """Two-sided p of resampled differences."""
    known = differences[~np.isnan(differences)]
    least = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (1 + least) / (1 + len(known)))


def permutation_p(observed: float, differences: Floats) -> float:
    """Two-sided p of an observed difference among exchanged ones; rounding is no difference."""
    if np.isnan(observed):
        return 1.0
    as_large = np.abs(differences) >= abs(observed) - 1e-12
    return float(1 + as_large.sum()) / (1 + len(differences))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    corrected = np.empty(len(p))
    corrected[order] = stepped
    return [float(value) for value in corrected]


def _flips(n: int, replicates: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng([seed, 1])
    rows = max(1, CELLS // max(n, 1))
    for start in range(0, replicates, rows):
        yield rng.integers(2, size=(min(rows, replicates - start), n), dtype=np.int8).astype(np.float64)
