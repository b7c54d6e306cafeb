"""Integrated Gradients (Sundararajan et al. 2017) of all words of a caption, as exactly as asked for.

    A = (I_0 - I_b) * integral over alpha in [0, 1] of dS(I_b + alpha (I_0 - I_b)) / dI    (Cornia 2022 Eq. 12, sign corrected)

The quadrature was chosen by measurement on trained captioners (`python -m benchmarks.speed.explain --quadrature`). Two things
make the integrand hard: nearly all change happens close to the baseline, hence the bent path of `quadrature`; and
thousands of ReLUs switch along the way, each making every gradient jump, which no choice of nodes can see. So each node
of a Gauss-Legendre rule lets every ReLU act with its mean derivative over the node's share of the path
(`relus.AveragedRelus`) instead of that at the node alone. Steps grow until the completeness error of
every word is under the tolerance: sums of attributions are compared with S(image) - S(baseline), computed directly.
Where they grow in vain, as scores jump somewhere on the path, it is cut there: `panels`.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from captrial.attribution.integrated_gradients.panels import even_ends, integrate_panels
from captrial.attribution.integrated_gradients.quadrature import (
    Array,
    Bend,
    Rule,
    find_bend,
    gauss_legendre,
)
from captrial.attribution.methods.gradients import PathGradients
from captrial.errors import InputError

RuleName = Literal["averaged", "gauss_legendre"]
FIRST, SMOOTH, MOST = 12, 96, 384  # steps of the first try, of the last over the whole path, and of the last in panels
PANELS = 8  # to begin with
_SCOUTS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 17)])


class Integral(NamedTuple):
    """Integrated gradients of `w` words."""

    gradient: Tensor  # (w, *input): the mean over the path
    direction: Tensor  # (*input): from baseline to image
    changes: Tensor  # (w,) S(image) - S(baseline)
    errors: Tensor  # (w,) completeness errors
    steps: int  # nodes of the rule that was kept

    @property
    def attribution(self) -> Tensor:
        """The mean gradient times the way, (w, *input)."""
        return self.gradient * self.direction


def integrate(
    path: PathGradients,
    tolerance: float = 0.01,
    steps: int | None = None,
    rule: RuleName = "averaged",
    max_steps: int = MOST,
) -> Integral:
    """Integrate along `path`, with `steps` nodes or with as many as bring every word's error under `tolerance`.

    `rule="gauss_legendre"` is the textbook's: straight path, plain gradients, the same numbers as captum's. Where
    `max_steps` do not reach the tolerance the errors say so.
    """
    check_asked(tolerance, steps, rule)
    averaged = rule == "averaged"
    scouted = scout(path) if averaged else None
    bend = Bend() if scouted is None else find_bend(_SCOUTS, scouted)
    if steps is not None:
        return _apply(path, gauss_legendre(steps, bend), averaged)
    if scouted is None:
        return refine(path, bend, tolerance, min(FIRST, max_steps), max_steps, averaged)
    whole = refine(path, bend, tolerance, min(FIRST, max_steps), min(SMOOTH, max_steps))
    if worst_error(whole) <= tolerance or max_steps <= SMOOTH:
        return whole
    return min(whole, _in_panels(path, scouted, tolerance, max_steps), key=worst_error)


def check_asked(tolerance: float, steps: int | None, rule: str) -> None:
    """Refuse what cannot be integrated."""
    if rule not in ("averaged", "gauss_legendre"):
        raise InputError(f"no quadrature rule {rule!r}; there are: averaged, gauss_legendre")
    if (steps is not None and steps < 1) or tolerance <= 0:
        raise InputError("integrated gradients need at least one step and a tolerance above 0")


def refine(
    path: PathGradients,
    bend: Bend,
    tolerance: float,
    nodes: int,
    most: int,
    averaged: bool = True,
    scale: Tensor | None = None,
) -> Integral:
    """Take more and more nodes until every word's error, relative to `scale` (w,), is under the tolerance."""
    before: Integral | None = None
    while True:
        found = _apply(path, gauss_legendre(nodes, bend), averaged, scale)
        best = found if before is None else min(found, extrapolate(path, before, found, scale), key=worst_error)
        if worst_error(best) <= tolerance or nodes >= most:
            return best
        nodes, before = min(most, more_steps(nodes, worst_error(found), tolerance)), found


def scout(path: PathGradients) -> Array:
    """Scores (18, w) along the path, looked at without gradients: where should it be walked slowly?"""
    return path.scores(torch.as_tensor(_SCOUTS).to(path.start)).double().cpu().numpy()


def _in_panels(path: PathGradients, scouted: Array, tolerance: float, most: int) -> Integral:
    limit = tolerance * error_scale(path.ends[1] - path.ends[0]) / 8  # of a panel: there are many, their signs differ
    gradient, steps = integrate_panels(path, even_ends(_SCOUTS, scouted, PANELS), limit, most)
    return _checked(path, gradient, steps, None)


def worst_error(integral: Integral) -> float:
    """The largest completeness error of a word."""
    return float(integral.errors.max()) if len(integral.errors) else 0.0


def extrapolate(path: PathGradients, coarse: Integral, fine: Integral, scale: Tensor | None = None) -> Integral:
    """Two tries as one (Richardson), for an error that falls with the square of the steps."""
    share = 1 / ((fine.steps / coarse.steps) ** 2 - 1)
    gradient = fine.gradient + share * (fine.gradient - coarse.gradient)
    return _checked(path, gradient, fine.steps, scale)


def more_steps(nodes: int, error: float, tolerance: float) -> int:
    """How many steps to try next, were the error to fall with their square; at least half more, at most four times.

    >>> more_steps(12, 0.02, 0.01)
    20
    """
    wanted = nodes * math.sqrt(1.3 * error / tolerance)
    return math.ceil(min(4.0 * nodes, max(1.5 * nodes, wanted)))


def completeness_errors(sums: Tensor, changes: Tensor, scale: Tensor | None = None) -> Tensor:
    """|sum A - dS| / max(|dS|, 0.05 max |dS|) a word; 0 where nothing changes at all."""
    scale = error_scale(changes) if scale is None else scale
    missed = (sums - changes).abs()
    return torch.where(missed == 0, missed, missed / scale.clamp(min=torch.finfo(scale.dtype).tiny))


def error_scale(changes: Tensor) -> Tensor:
    """What a word's error is relative to (w,): its change of score, or a twentieth of the largest."""
    size = changes.abs()
    return size.clamp(min=float(0.05 * size.max())) if len(size) else size


def _apply(path: PathGradients, rule: Rule, averaged: bool, scale: Tensor | None = None) -> Integral:
    alphas, weights, ends = (torch.as_tensor(part).to(path.start) for part in rule)
    pulled = path.pull(alphas, weights, ends if averaged else None)
    return _checked(path, pulled.gradient, len(alphas), scale)


def _checked(path: PathGradients, gradient: Tensor, steps: int, scale: Tensor | None) -> Integral:
    """With its completeness errors."""
    changes = path.ends[1] - path.ends[0]
    sums = (gradient * path.direction).double().flatten(1).sum(1).to(changes)
    return Integral(gradient, path.direction, changes, completeness_errors(sums, changes, scale), steps)
