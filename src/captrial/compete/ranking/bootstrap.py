"""How sure the ranking is: the images that were labelled are weighed anew, many times.

Every image gets one random weight, shared by all D_ij that hold it, so that what one image says about several pairs
stays together (Bayesian bootstrap: independent exponential weights, never zero). Document frequencies stay fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.dominance import ratios
from captrial.compete.ranking.evidence import Evidence
from captrial.compete.ranking.perron import ranking_vectors, ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Replicates:
    """What the ranking would have been under other images of the same kind."""

    scores: Floats  # (replicates, m) ranking vectors
    ranks: Ints  # (replicates, m)
    beats: Floats  # (m, m) share of replicates with f_ij > 1; ties count half; NaN on the diagonal and without labels

    def score_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Percentile interval of each model's score: two arrays (m,)."""
        low, high = np.quantile(self.scores, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def rank_interval(self, level: float = 0.95) -> tuple[Ints, Ints]:
        """Percentile interval of each model's rank: two arrays (m,) of ranks that were taken."""
        sides = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(self.ranks, sides, axis=0, method="inverted_cdf").astype(np.int64)
        return low, high

    def first(self) -> Floats:
        """(m,) the share of replicates in which each model wins."""
        return np.asarray((self.ranks == 1).mean(axis=0))


def bootstrap(evidence: Evidence, replicates: int = 1000, seed: int = 0) -> Replicates:
    """Weigh the images anew `replicates` times and rank each time; same seed, same result."""
    weights = exponential_weights(replicates, len(evidence.images), seed)
    f = ratios(evidence.scores(weights))
    scores = ranking_vectors(f)
    beats = np.where(np.isnan(f[0]), np.nan, (f > 1).mean(axis=0) + 0.5 * (f == 1).mean(axis=0))
    np.fill_diagonal(beats, np.nan)
    return Replicates(scores, ranks(scores), beats)


def exponential_weights(replicates: int, images: int, seed: int) -> Floats:
    """(replicates, images) independent weights of mean 1."""
    return np.random.default_rng(seed).standard_exponential((replicates, images))
