"""From pairwise scores P to a global ranking q (Wan 2022 section 3.4).

Pairwise dominance is f_ij = p_ij / p_ji, how much better model i is than j on D_ij. The global ranking (Eq. 7) is the
mean of F^a 1 / (1' F^a 1) over all a, which for F > 0 is the Perron vector of F.

Power iteration is vectorised over matrices with numpy. A compiled loop was measured to be three times as fast (0.5 ms
against 1.5 ms for 1 000 replicates of nine models), which no command notices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.errors import StateError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARE = 0.01  # of the smallest positive p is added to all where some p is 0
_TOLERANCE = 1e-14
_STEPS = 10_000


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


def pairwise_dominance(p: Floats) -> Dominance:
    """F of P with what smoothing added."""
    return Dominance(p, ratios(p), float(smoothing(p)))


def ranking_vector(f: Floats, models: Sequence[str] | None = None) -> Floats:
    """q (m,) of Eq. 7, positive, summing to 1; a larger value is a better model. `models` are names for an error.

    >>> ranking_vector(np.array([[1.0, 4.0], [0.25, 1.0]]))
    array([0.8, 0.2])
    """
    reached = _reachable(f)[0]
    if not reached.all():  # no chain of labelled pairs: nothing to compare them by
        names = models or [f"model {number}" for number in range(1, len(f) + 1)]
        raise StateError(
            f"no labelled images connect {names[int(np.argmin(reached))]} with {names[0]}; label more images first"
        )
    return np.asarray(ranking_vectors(f[None])[0])


def ranking_vectors(f: Floats) -> Floats:
    """q (n, m) for many matrices F (n, m, m) by power iteration; unknown ratios are NaN.

    A pair without labels is filled in as q_i / q_j itself, by Harker's rule: 0 in its place and 1 more on both
    diagonal entries.
    """
    unknown = np.isnan(f)
    if unknown.any():
        f = np.where(unknown, 0.0, f)
        diagonal = np.arange(f.shape[-1])
        f[..., diagonal, diagonal] += unknown.sum(axis=-1)
    return _power_iteration(f)


def ranks(q: Floats) -> Ints:
    """Rank 1 is the largest q; equal values take the order of the models. (..., m) -> (..., m)

    >>> ranks(np.array([0.2, 0.5, 0.3]))
    array([3, 1, 2])
    """
    order = np.argsort(-q, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable") + 1


def connected(f: Floats) -> NDArray[np.bool_]:
    """Whether known ratios connect all models, directly or through others: (..., m, m) -> (...)."""
    return np.asarray(_reachable(f).all(axis=(-2, -1)))


def connection(f: Floats) -> NDArray[np.bool_]:
    """(m,) the models of the largest group that known ratios (m, m) connect."""
    reachable = _reachable(f)
    return np.asarray(reachable[int(np.argmax(reachable.sum(axis=1)))])


def _reachable(f: Floats) -> NDArray[np.bool_]:
    """(..., m, m) which models a chain of known ratios connects."""
    reachable = ~np.isnan(f)
    if not reachable.all():
        for _ in range(int(np.ceil(np.log2(max(f.shape[-1], 2))))):
            reachable = np.matmul(reachable, reachable)
    return np.asarray(reachable)


def _power_iteration(matrices: Floats) -> Floats:
    """Multiply a vector of ones by F repeatedly, scaling it to sum 1, until it stops changing: (n, m, m) -> (n, m)."""
    count, size = matrices.shape[:2]
    found = np.empty((size, count))
    active = np.arange(count)  # matrices that have not converged
    columns = np.ascontiguousarray(matrices.transpose(2, 1, 0))  # (column, row, n)
    q = np.full((size, count), 1.0 / size)
    for _ in range(_STEPS):
        if not len(active):
            break
        product = columns[0] * q[0]
        for column in range(1, size):  # in a fixed order, so that results do not depend on how many are computed
            product += columns[column] * q[column]
        total = product[0].copy()
        for row in range(1, size):
            total += product[row]
        product /= total
        moving = (np.abs(product - q) / product).max(axis=0) >= _TOLERANCE
        q = product
        if not moving.all():
            found[:, active[~moving]] = q[:, ~moving]
            active, columns, q = active[moving], columns[:, :, moving], q[:, moving]
    found[:, active] = q
    return np.ascontiguousarray(found.T)
