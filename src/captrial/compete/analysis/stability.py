"""Stability of the ranking in k (Wan 2022 Fig. 10): the ranking from the first k images of every D_ij against all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import connected, connection, ranking_vector, ratios

Floats = NDArray[np.float64]

WEAK = 4  # with fewer models a rank correlation carries little information


@dataclass(frozen=True)
class Stability:
    """SRCC of the top-k ranking with the full one, for every k whose images have labels enough for a ranking."""

    metric: str
    k: tuple[int, ...]
    srcc: tuple[float, ...]
    models: int

    @property
    def weak(self) -> bool:
        """Whether there are too few models for a rank correlation to mean much."""
        return self.models < WEAK

    def settled(self, level: float = 0.9) -> int | None:
        """The smallest k from which on every SRCC exceeds `level`, or None."""
        below = [k for k, value in zip(self.k, self.srcc, strict=True) if not value > level]
        if not below:
            return self.k[0] if self.k else None
        return next((k for k in self.k if k > below[-1]), None)


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation of two score vectors; 1 where either is constant and both agree on that.

    >>> spearman(np.array([3.0, 2.0, 1.0]), np.array([0.5, 0.3, 0.4]))
    0.5
    """
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 1.0 if np.ptp(first) == np.ptp(second) else 0.0
    return round(float(np.corrcoef(_mean_ranks(first), _mean_ranks(second))[0, 1]), 12)


def measure_stability(score: Callable[[int | None], PairwiseScores], first: int = 5) -> Stability:
    """Rank by the first k images of every D_ij, for k from `first` to all of them.

    `score(k)` returns the scores on the first k images of every D_ij, `score(None)` on all. Where not all images are
    labelled, labelled ones count by their inverse probabilities, as in `rank_models`; a model that labels do not
    connect with the others is left out, and a k whose images do not connect all.
    """
    everything = score(None).weighted()
    ranked = connection(ratios(everything.matrix()))
    everything = everything.among(ranked)
    final = ranking_vector(ratios(everything.matrix()), everything.models)
    last = max((pair.wanted for pair in everything.pairs), default=0)
    matrices = {k: ratios(score(k).weighted().among(ranked).matrix()) for k in range(first, last + 1)}
    values = {k: spearman(ranking_vector(f), final) for k, f in matrices.items() if connected(f)}
    return Stability(everything.metric, tuple(values), tuple(values.values()), len(everything.models))


def _mean_ranks(values: Floats) -> Floats:
    """Ranks from 1, smallest first; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])
