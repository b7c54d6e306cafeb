"""Nodes and weights on the path from baseline to image.

Scores change most close to the baseline: on trained captioners half of all change lies below one to seven per cent of
the path. So nodes are placed in `v`, with `alpha = bend * ((1 + 1 / bend)^v - 1)`, which gives every power of ten
between `bend` and 1 its share of the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
STRAIGHT = float("inf")  # the bend of no bend: alpha = v


@dataclass(frozen=True)
class Bend:
    """The change of variable; from `at` on nodes are spread evenly in the logarithm of alpha."""

    at: float = STRAIGHT

    def alpha(self, v: Array) -> Array:
        """Positions on the path for v in [0, 1].

        >>> Bend(0.01).alpha(np.array([0.0, 0.5, 1.0])).round(3).tolist()
        [0.0, 0.09, 1.0]
        """
        if self.at == STRAIGHT:
            return v
        alpha: Array = self.at * np.expm1(v * np.log1p(1 / self.at))
        return alpha.clip(0.0, 1.0)

    def density(self, v: Array) -> Array:
        """d alpha / d v."""
        if self.at == STRAIGHT:
            return np.ones_like(v)
        return (self.alpha(v) + self.at) * float(np.log1p(1 / self.at))


class QuadratureRule(NamedTuple):
    """Nodes on the path with their weights, and the ends of the share of the path that each node stands for."""

    alphas: Array  # (m,) in (0, 1)
    weights: Array  # (m,) positive
    ends: Array  # (m + 1,) from 0 to 1, node j lies between ends j and j + 1


def gauss_legendre(nodes: int, bend: Bend | None = None) -> QuadratureRule:
    """Gauss-Legendre in the bent variable; without a bend, captum's nodes and weights.

    The share of a node is as long as its weight: by the separation theorem of Chebyshev, Markov and Stieltjes it
    contains the node.

    >>> rule = gauss_legendre(5)
    >>> float((rule.weights * rule.alphas**8).sum().round(12))
    0.111111111111
    """
    bend = bend or Bend()
    x, w = np.polynomial.legendre.leggauss(nodes)
    v, w = (x + 1) / 2, w / 2
    ends = np.concatenate([[0.0], np.cumsum(w)[:-1], [1.0]])
    return QuadratureRule(bend.alpha(v), w * bend.density(v), bend.alpha(ends))


def find_bend(alphas: Array, scores: Array, share: float = 0.35) -> Bend:
    """The bend of a path on which scores (m, w) at `alphas` (m,) are known: where `share` of all change is done.

    >>> find_bend(np.array([0, 0.01, 0.1, 1.0]), np.array([[0.0], [6.0], [8.0], [8.0]])).at
    0.01
    """
    change = np.abs(np.diff(scores, axis=0))
    total = change.sum(0)
    if not (total > 0).any():
        return Bend()
    done = np.concatenate([[0.0], np.cumsum((change / np.where(total > 0, total, 1)).mean(1))])
    reached = int(np.searchsorted(done, share * done[-1]))
    return Bend(float(np.clip(alphas[reached], 1e-4, 1.0)))


def even_ends(alphas: Array, scores: Array, panels: int) -> Array:
    """Ends (panels + 1,) of panels between which scores (m, w), known at `alphas`, change by equal amounts.

    Half of the measure is the length of a panel, so that no panel is long.

    >>> even_ends(np.array([0.0, 0.5, 1.0]), np.array([[0.0], [3.0], [4.0]]), 2).round(2).tolist()
    [0.0, 0.4, 1.0]
    """
    change = np.abs(np.diff(scores, axis=0))
    total = change.sum(0)
    share = (change / np.where(total > 0, total, 1)).mean(1)
    done = np.concatenate([[0.0], np.cumsum(share)])
    measure = alphas if done[-1] == 0 else (alphas + done / done[-1]) / 2
    ends: Array = np.interp(np.linspace(0, 1, panels + 1), measure, alphas)
    return ends
