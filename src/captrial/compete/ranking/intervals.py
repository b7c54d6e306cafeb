"""Intervals for scores, differences and ranks from estimates that are sums of one term an image.

An interval is estimate ± t * sqrt(sum of squared terms), Student's t with one degree of freedom less than there are
(effective) labels. It is left out where it would not cover: with fewer than `FEWEST` labels, or where a few images
carry nearly all of a score, as for a model that scores 0 on almost all of them (`effective_number`).

The rank of a model lies between 1 + the number of models that are better for sure and m - the number of models that are
worse for sure, the m - 1 comparisons of the model being held to the level together (Bonferroni; Mogstad et al. 2024).
Counting in how many replicates a model has a rank would not cover: it takes the order of close models for known.

Two models with the same captions have the same scores and the same terms: they are ties, neither is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 8  # effective labels below which no interval is given: 10 labels have as many
SUPPORT = 2.5  # effective labels that a score must come from
REPLICATES = 2000
_SAME = 1e-9  # relative difference of scores below which two are the same


@dataclass(frozen=True)
class JointEstimate:
    """Estimates of several models from the same images."""

    value: Floats  # (m,)
    terms: Floats  # (n, m) what each image adds to the error of the estimates
    offsets: Floats  # (n, m) the same without what all models have in common
    labels: float  # effective number of labels behind a value
    pair_labels: float  # behind a difference
    support: Floats  # (m,) effective number of labels that a score comes from
    freedom: float | None = None  # degrees of freedom of a value's variance; None: one less than its labels
    fewest: float = FEWEST  # effective labels that a difference needs for an interval

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.value)


@dataclass(frozen=True)
class Uncertainty:
    """Intervals of scores, differences and ranks; NaN (ranks: the whole range) where none can be given."""

    low: Floats  # (m,)
    high: Floats  # (m,)
    rank_low: Ints  # (m,)
    rank_high: Ints  # (m,)
    first: Floats  # (m,) the probability to be first; ties share it
    beats: Floats  # (m, m) the probability that the row is better than the column; NaN on the diagonal
    difference_low: Floats  # (m, m) interval of the row's value minus the column's
    difference_high: Floats  # (m, m)
    given: NDArray[np.bool_]  # (m,) whether the score has an interval
    ranked: bool  # whether ranks have intervals


def uncertainty(estimate: JointEstimate, level: float = 0.95, seed: int = 0) -> Uncertainty:
    """Intervals at `level` for every score, difference and rank."""
    m = estimate.models
    spread = np.sqrt((estimate.terms**2).sum(axis=0))  # (m,)
    differences = estimate.offsets[:, :, None] - estimate.offsets[:, None, :]  # (n, m, m)
    pair_spread = np.sqrt((differences**2).sum(axis=0))
    pair_value = estimate.value[:, None] - estimate.value[None, :]
    scale = np.maximum(np.abs(estimate.value).max(initial=0.0), 1e-300)
    same = np.abs(pair_value) <= _SAME * scale
    enough_pairs = estimate.pair_labels >= estimate.fewest
    enough = estimate.labels >= FEWEST and enough_pairs
    given = enough & (estimate.support >= SUPPORT)
    freedom = estimate.labels - 1 if estimate.freedom is None else estimate.freedom
    half = student_quantile(level, freedom + 1) * spread
    pair_half = student_quantile(level, estimate.pair_labels) * pair_spread
    joint_half = student_quantile(1 - (1 - level) / max(m - 1, 1), estimate.pair_labels) * pair_spread
    better = enough_pairs & ~same & (pair_value > joint_half)  # (m, m) the row is better than the column for sure
    beats = _beats(pair_value, pair_spread, same, estimate.pair_labels)
    return Uncertainty(
        low=np.where(given, estimate.value - half, np.nan),
        high=np.where(given, estimate.value + half, np.nan),
        rank_low=1 + better.sum(axis=0),
        rank_high=m - better.sum(axis=1),
        first=_first(estimate, seed),
        beats=beats,
        difference_low=np.where(enough_pairs, pair_value - pair_half, np.nan),
        difference_high=np.where(enough_pairs, pair_value + pair_half, np.nan),
        given=given,
        ranked=bool(enough_pairs),
    )


def effective_number(values: Floats) -> Floats:
    """From how many images (first axis) a sum comes: (sum v)^2 / sum v^2, 1 where one image is all of it (Kish 1965).

    >>> float(effective_number(np.array([2.0, 2.0, 2.0, 2.0]))), float(effective_number(np.array([0.0, 0.0, 7.0])))
    (4.0, 1.0)
    """
    squares = (values**2).sum(axis=0)
    return np.asarray(values.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0))


def mid_ranks(values: Floats) -> Floats:
    """Rank 1 is the largest value; equal values share the mean of their ranks, NaN has none. (m,) -> (m,)

    >>> mid_ranks(np.array([0.2, 0.5, 0.5]))
    array([3. , 1.5, 1.5])
    """
    tolerance = _SAME * np.maximum(np.nanmax(np.abs(values), initial=0.0), 1e-300)
    apart = values[None, :] - values[:, None]  # (m, m) how much better the column is
    above = (apart > tolerance).sum(axis=1)
    equal = (np.abs(apart) <= tolerance).sum(axis=1)
    return np.where(np.isnan(values), np.nan, above + (equal + 1) / 2)


def student_quantile(level: float, labels: float) -> float:
    """Half the width, in standard errors, of an interval from this many labels."""
    return float(stdtrit(max(labels - 1, 1.0), (1 + level) / 2))


def _beats(value: Floats, spread: Floats, same: NDArray[np.bool_], labels: float) -> Floats:
    """The probability that the difference is positive, by Student's t; half for ties."""
    known = spread > 0
    chance = stdtr(max(labels - 1, 1.0), value / np.where(known, spread, 1.0))
    found = np.where(same, 0.5, np.where(known, chance, value > 0))
    np.fill_diagonal(found, np.nan)
    return np.asarray(found)


def _first(estimate: JointEstimate, seed: int) -> Floats:
    """(m,) in what share of draws from the joint distribution each model is best; equal bests share it."""
    generator = np.random.default_rng(seed)
    errors = generator.standard_normal((REPLICATES, len(estimate.offsets))) @ estimate.offsets  # (replicates, m)
    freedom = max(estimate.pair_labels - 1, 1.0)
    errors /= np.sqrt(generator.chisquare(freedom, (REPLICATES, 1)) / freedom)
    drawn = estimate.value + errors
    best = drawn.max(axis=1, keepdims=True)
    leading = drawn >= best - _SAME * np.maximum(np.abs(best), 1e-300)
    return np.asarray((leading / leading.sum(axis=1, keepdims=True)).mean(axis=0))
