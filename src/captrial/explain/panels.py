"""Quadrature in panels, for paths on which scores jump: a tiny part of the way can hold half of all change.

A fine-tuned ViT may turn from one word to another within a ten-thousandth of the path, which no rule laid over the
whole of it sees. But what the integral over any panel must come to is known without gradients: the difference of the
scores at its ends. So a panel that does not come to it is halved, and one that does is never looked at again.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from captrial.explain.gradients import PathGradients
from captrial.explain.quadrature import Array, gauss_legendre

NODES = 4  # of a panel
_RULE = gauss_legendre(NODES)


def integrate_panels(path: PathGradients, ends: Array, limit: Tensor, most: int) -> tuple[Tensor, int]:
    """The mean gradient (w, *input) over the path, and how many nodes it has; up to `most` are tried.

    `ends` (p + 1,) are those of the first panels. A panel is halved while the error of a word is above `limit` (w,);
    once `most` nodes were tried, panels are taken as they are.
    """
    scores = path.scores(torch.as_tensor(ends).to(path.start))
    waiting = [(float(ends[p]), float(ends[p + 1]), scores[p], scores[p + 1]) for p in reversed(range(len(ends) - 1))]
    gradient = torch.zeros(len(path.targets), *path.start.shape, dtype=path.start.dtype, device=path.start.device)
    tried = kept = 0
    while waiting:
        start, stop, before, after = waiting.pop()
        alphas, weights, shares = (
            torch.as_tensor(part).to(path.start)
            for part in (
                start + (stop - start) * _RULE.alphas,
                (stop - start) * _RULE.weights,
                start + (stop - start) * _RULE.ends,
            )
        )
        pulled = path.pull(alphas, weights, shares)
        tried += NODES
        missed = (weights @ pulled.slopes - (after - before)).abs()
        middle = (start + stop) / 2
        if bool((missed <= limit).all()) or tried + NODES * (len(waiting) + 2) > most or not start < middle < stop:
            gradient += pulled.gradient
            kept += NODES
            continue
        (between,) = path.scores(alphas.new_tensor([middle]))
        waiting += [(middle, stop, between, after), (start, middle, before, between)]
    return gradient, kept


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
