"""Pairwise dominance (Wan 2022 section 3.4): f_ij = p_ij / p_ji, how much better model i is than j on D_ij."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHARE = 0.01  # of the smallest positive p is added to all where some p is 0


@dataclass(frozen=True)
class Dominance:
    """The matrices P and F of a competition; `added` is what smoothing added to every p (0: nothing)."""

    p: Floats  # (m, m) diagonal NaN, NaN where a pair has no labels
    f: Floats  # (m, m) diagonal 1, NaN where a pair has no labels
    added: float


def smoothing(p: Floats) -> Floats:
    """The number to add to every p so that no ratio divides by zero: (..., m, m) -> (...).

    >>> float(smoothing(np.array([[np.nan, 0.5], [0.0, np.nan]])))
    0.005
    >>> float(smoothing(np.array([[np.nan, 0.5], [0.25, np.nan]])))
    0.0
    """
    smallest = np.where(p > 0, p, np.inf).min(axis=(-2, -1))
    added = np.where(np.isfinite(smallest), SHARE * smallest, 1.0)  # all scores are 0: all ratios become 1
    return np.asarray(np.where((p == 0).any(axis=(-2, -1)), added, 0.0))


def ratios(p: Floats) -> Floats:
    """F of P, both (..., m, m), smoothed where some p is 0; the diagonal is 1, unknown pairs stay NaN."""
    raised = p + smoothing(p)[..., None, None]
    f = raised / np.swapaxes(raised, -1, -2)
    diagonal = np.arange(p.shape[-1])
    f[..., diagonal, diagonal] = 1.0
    return np.asarray(f)


def dominance(p: Floats) -> Dominance:
    """F of P with what smoothing added."""
    return Dominance(p, ratios(p), float(smoothing(p)))
