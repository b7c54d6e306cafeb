"""Quadrature in panels, for paths on which scores jump: a tiny part of the way can hold half of all change.

A fine-tuned ViT may turn from one word to another within a ten-thousandth of the path, which no rule laid over the
whole of it sees. But what the integral over any panel must come to is known without gradients: the difference of the
scores at its ends. So a panel that does not come to it is halved, and one that does is never looked at again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from captrial.attribution.integrated_gradients.quadrature import Array, gauss_legendre
from captrial.attribution.methods.gradients import PathGradients

NODES = 4  # of a panel
_RULE = gauss_legendre(NODES)


class Panel(NamedTuple):
    """A part of the path, and the scores (w,) at its ends."""

    start: float
    stop: float
    before: Tensor
    after: Tensor


def integrate_panels(path: PathGradients, ends: Array, limit: Tensor, most: int) -> tuple[Tensor, int]:
    """The mean gradient (w, *input) over the path, and how many nodes it has; up to about `most` are tried.

    `ends` (p + 1,) are those of the first panels. Panels with an error above `limit` (w,) of some word are halved,
    again and again, the worst first where not all can be; those that cannot are taken as they are.
    """
    scores = path.scores(torch.as_tensor(ends).to(path.start))
    panels = [Panel(float(ends[p]), float(ends[p + 1]), scores[p], scores[p + 1]) for p in range(len(ends) - 1)]
    gradient = torch.zeros(len(path.targets), *path.start.shape, dtype=path.start.dtype, device=path.start.device)
    limit = limit.clamp(min=torch.finfo(limit.dtype).tiny)
    tried = kept = 0
    while panels:
        wrong: list[tuple[float, Panel, Tensor]] = []
        for panel in panels:
            part, errors = _pull(path, panel)
            error = float((errors / limit).max())
            if error > 1 and _has_a_middle(panel, path.start):
                wrong.append((error, panel, part))
            else:
                gradient += part
                kept += NODES
        tried += NODES * len(panels)
        room = max(0, most - tried) // (2 * NODES)  # for so many to be halved
        wrong.sort(key=lambda item: -item[0])
        for _, _, part in wrong[room:]:
            gradient += part
            kept += NODES
        panels = _halve(path, [panel for _, panel, _ in wrong[:room]])
    return gradient, kept


def _pull(path: PathGradients, panel: Panel) -> tuple[Tensor, Tensor]:
    """The gradient's part (w, *input) of a panel, and how far it is from its change of score (w,)."""
    way = panel.stop - panel.start
    alphas, ends = (torch.as_tensor(panel.start + way * part).to(path.start) for part in (_RULE.alphas, _RULE.ends))
    weights = torch.as_tensor(way * _RULE.weights).to(path.start)
    pulled = path.pull(alphas, weights, ends)
    return pulled.gradient, (weights @ pulled.slopes - (panel.after - panel.before)).abs()


def _has_a_middle(panel: Panel, like: Tensor) -> bool:
    """Whether there is a number of the path's precision between the ends."""
    start, middle, stop = like.new_tensor([panel.start, (panel.start + panel.stop) / 2, panel.stop])
    return bool(start < middle) and bool(middle < stop)


def _halve(path: PathGradients, panels: list[Panel]) -> list[Panel]:
    middles = [(panel.start + panel.stop) / 2 for panel in panels]
    scores = path.scores(path.start.new_tensor(middles)) if middles else ()
    halves: list[Panel] = []
    for panel, middle, score in zip(panels, middles, scores, strict=True):
        halves += [panel._replace(stop=middle, after=score), panel._replace(start=middle, before=score)]
    return halves


def even_ends(alphas: Array, scores: Array, panels: int) -> Array:
    """Ends (panels + 1,) such that scores (m, w), known at `alphas`, change alike between any two.

    Half of the measure is the way itself, so that no panel is long.

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
