"""Integrated Gradients (Sundararajan et al. 2017) of all words of a caption, to a given tolerance.

    A = (I_0 - I_b) * integral over alpha in [0, 1] of dS(I_b + alpha (I_0 - I_b)) / dI
    (Cornia 2022 Eq. 12, sign corrected)

The quadrature was chosen by measurement on trained captioners (`python -m benchmarks.speed.explain --quadrature`). Two
things make the integrand hard. Nearly all change happens close to the baseline: on trained captioners half of it lies
below one to seven per cent of the path. So nodes are placed in `v`, with `alpha = bend * ((1 + 1 / bend)^v - 1)`, which
gives every power of ten between `bend` and 1 its share of the nodes (`Bend`). And thousands of ReLUs switch along the
path; each makes every gradient jump, which no choice of nodes can see. So each node of a Gauss-Legendre rule lets every
ReLU act with its mean derivative over the node's share of the path (`relus.AveragedRelus`) instead of that at the node.
Steps grow until the numerical error of every word is under the tolerance: sums of attributions are compared with
S(image) - S(baseline), computed directly.

On some models scores jump: a fine-tuned ViT may turn from one word to another within a ten-thousandth of the path,
which no rule over the whole path sees. But the integral over any panel of the path is known without gradients: it is
the difference of the scores at its ends. So a path on which more steps do not help is divided into panels; a panel
that misses its difference is halved, one that does not is kept (`integrate_panels`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from captrial.attribution.gradients.path_gradients import PathGradients
from captrial.attribution.methods.registry import AttributionSettings, RuleName
from captrial.errors import InputError

Array = NDArray[np.float64]
MOST_STEPS = 10_000  # the nodes of a rule take memory with the square of their number
FIRST, SMOOTH = 12, 96  # steps of the first and of the last attempt over the whole path
PANELS, NODES = 8, 4  # the first panels, and the nodes of a panel
ALPHAS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 17)])


# Nodes and weights ----------------------------------------------------------------------------------------------------

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


# Integration ----------------------------------------------------------------------------------------------------------


class Integral(NamedTuple):
    """Integrated gradients of `w` words."""

    gradient: Tensor  # (w, *input): the mean over the path
    direction: Tensor  # (*input): from baseline to image
    changes: Tensor  # (w,) S(image) - S(baseline)
    errors: Tensor  # (w,) numerical errors
    steps: int  # nodes of the rule that was kept

    @property
    def attribution(self) -> Tensor:
        """The mean gradient times the direction, (w, *input)."""
        return self.gradient * self.direction


@dataclass(frozen=True)
class Refinement:
    """Rules of `first` nodes, then of more, up to `most`, until every word's error is under the tolerance."""

    bend: Bend
    tolerance: float
    first: int
    most: int
    averaged: bool = True  # ReLUs act with their mean derivative over a node's share of the path


def integrate(path: PathGradients, settings: AttributionSettings | None = None) -> Integral:
    """Integrate along `path`, with `settings.steps` nodes or with as many as every word's `tolerance` needs.

    `rule="gauss_legendre"` is the textbook's: straight path, plain gradients, the same numbers as captum's. If
    `max_steps` do not reach the tolerance, `errors` tell by how much.
    """
    settings = settings or AttributionSettings()
    check_quadrature(settings)
    tolerance, most = settings.tolerance, settings.max_steps
    averaged = settings.rule == "averaged"
    known = path_scores(path) if averaged else None
    bend = Bend() if known is None else find_bend(ALPHAS, known)
    if settings.steps is not None:
        return _apply(path, gauss_legendre(settings.steps, bend), averaged)
    if known is None:
        return refine(path, Refinement(bend, tolerance, min(FIRST, most), most, averaged))
    whole = refine(path, Refinement(bend, tolerance, min(FIRST, most), min(SMOOTH, most)))
    if worst_error(whole) <= tolerance or most <= SMOOTH:
        return whole
    return min(whole, _in_panels(path, known, tolerance, most), key=worst_error)


def check_quadrature(settings: AttributionSettings) -> None:
    """Refuse settings that cannot be integrated with."""
    if settings.rule not in get_args(RuleName):
        raise InputError(f"no quadrature rule {settings.rule!r}; there are: {', '.join(get_args(RuleName))}")
    if (settings.steps is not None and settings.steps < 1) or settings.tolerance <= 0:
        raise InputError("integrated gradients need at least one step and a tolerance above 0")
    if settings.steps is not None and settings.steps > MOST_STEPS:
        raise InputError(f"integrated gradients take at most {MOST_STEPS} steps, not {settings.steps}")


def refine(path: PathGradients, refinement: Refinement, scale: Tensor | None = None) -> Integral:
    """Take more nodes until every word's error, relative to `scale` (w,), is under the tolerance."""
    before: Integral | None = None
    nodes, tolerance = refinement.first, refinement.tolerance
    while True:
        found = _apply(path, gauss_legendre(nodes, refinement.bend), refinement.averaged, scale)
        best = found if before is None else min(found, extrapolate(path, before, found, scale), key=worst_error)
        if worst_error(best) <= tolerance or nodes >= refinement.most:
            return best
        nodes, before = min(refinement.most, more_steps(nodes, worst_error(found), tolerance)), found


def path_scores(path: PathGradients) -> Array:
    """Scores (18, w) along the path, without gradients: they tell where nodes are needed."""
    return path.scores(torch.as_tensor(ALPHAS).to(path.start)).double().cpu().numpy()


def _in_panels(path: PathGradients, known: Array, tolerance: float, most: int) -> Integral:
    limit = tolerance * error_scale(path.ends[1] - path.ends[0]) / 8  # of a panel: there are many, their signs differ
    gradient, steps = integrate_panels(path, even_ends(ALPHAS, known, PANELS), limit, most)
    return _checked(path, gradient, steps, None)


def worst_error(integral: Integral) -> float:
    """The largest numerical error of a word."""
    return float(integral.errors.max()) if len(integral.errors) else 0.0


def extrapolate(path: PathGradients, coarse: Integral, fine: Integral, scale: Tensor | None = None) -> Integral:
    """Two integrals as one (Richardson), for an error that falls with the square of the steps."""
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
    """|sum A - dS| / max(|dS|, 0.05 max |dS|) for each word; 0 if nothing changes."""
    scale = error_scale(changes) if scale is None else scale
    missed = (sums - changes).abs()
    return torch.where(missed == 0, missed, missed / scale.clamp(min=torch.finfo(scale.dtype).tiny))


def error_scale(changes: Tensor) -> Tensor:
    """What a word's error is relative to (w,): its change of score, or a twentieth of the largest."""
    size = changes.abs()
    return size.clamp(min=float(0.05 * size.max())) if len(size) else size


def _apply(path: PathGradients, rule: QuadratureRule, averaged: bool, scale: Tensor | None = None) -> Integral:
    alphas, weights, ends = (torch.as_tensor(part).to(path.start) for part in rule)
    pulled = path.pull(alphas, weights, ends if averaged else None)
    return _checked(path, pulled.gradient, len(alphas), scale)


def _checked(path: PathGradients, gradient: Tensor, steps: int, scale: Tensor | None) -> Integral:
    """With its numerical errors."""
    changes = path.ends[1] - path.ends[0]
    sums = (gradient * path.direction).double().flatten(1).sum(1).to(changes)
    return Integral(gradient, path.direction, changes, completeness_errors(sums, changes, scale), steps)


# Panels ---------------------------------------------------------------------------------------------------------------

_RULE = gauss_legendre(NODES)


class QuadraturePanel(NamedTuple):
    """A part of the path, and the scores (w,) at its ends."""

    start: float
    stop: float
    before: Tensor
    after: Tensor


def integrate_panels(path: PathGradients, ends: Array, limit: Tensor, most: int) -> tuple[Tensor, int]:
    """The mean gradient (w, *input) over the path, and how many nodes it has; up to about `most` are tried.

    `ends` (p + 1,) are those of the first panels. Panels with an error above `limit` (w,) of some word are halved,
    again and again, the worst first if not all can be; the rest is taken as it is.
    """
    scores = path.scores(torch.as_tensor(ends).to(path.start))
    panels = [
        QuadraturePanel(float(ends[p]), float(ends[p + 1]), scores[p], scores[p + 1]) for p in range(len(ends) - 1)
    ]
    gradient = torch.zeros(len(path.targets), *path.start.shape, dtype=path.start.dtype, device=path.start.device)
    limit = limit.clamp(min=torch.finfo(limit.dtype).tiny)
    tried = kept = 0
    while panels:
        wrong: list[tuple[float, QuadraturePanel, Tensor]] = []
        for panel in panels:
            part, errors = _pull_panel(path, panel)
            error = float((errors / limit).max())
            if error > 1 and _has_a_middle(panel, path.start):
                wrong.append((error, panel, part))
            else:
                gradient += part
                kept += NODES
        tried += NODES * len(panels)
        budget = max(0, most - tried) // (2 * NODES)  # for so many to be halved
        wrong.sort(key=lambda item: -item[0])
        for _, _, part in wrong[budget:]:
            gradient += part
            kept += NODES
        panels = _halve(path, [panel for _, panel, _ in wrong[:budget]])
    return gradient, kept


def _pull_panel(path: PathGradients, panel: QuadraturePanel) -> tuple[Tensor, Tensor]:
    """The gradient's part (w, *input) of a panel, and how far it is from its change of score (w,)."""
    way = panel.stop - panel.start
    alphas, ends = (torch.as_tensor(panel.start + way * part).to(path.start) for part in (_RULE.alphas, _RULE.ends))
    weights = torch.as_tensor(way * _RULE.weights).to(path.start)
    pulled = path.pull(alphas, weights, ends)
    return pulled.gradient, (weights @ pulled.slopes - (panel.after - panel.before)).abs()


def _has_a_middle(panel: QuadraturePanel, like: Tensor) -> bool:
    """Whether there is a number of the path's precision between the ends."""
    start, middle, stop = like.new_tensor([panel.start, (panel.start + panel.stop) / 2, panel.stop])
    return bool(start < middle) and bool(middle < stop)


def _halve(path: PathGradients, panels: list[QuadraturePanel]) -> list[QuadraturePanel]:
    middles = [(panel.start + panel.stop) / 2 for panel in panels]
    scores = path.scores(path.start.new_tensor(middles)) if middles else ()
    halves: list[QuadraturePanel] = []
    for panel, middle, score in zip(panels, middles, scores, strict=True):
        halves += [panel._replace(stop=middle, after=score), panel._replace(start=middle, before=score)]
    return halves
