"""Sanity checks of attributions: parameter randomisation, and deletion and insertion.

Random weights must change the map (Adebayo et al. 2018). Deleting the elements that a word was attributed to must lower
the word's probability faster than deleting elements in random order (Petsiuk et al. 2018). The third check,
completeness, is part of every integrated-gradients result (`Attribution.errors`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from captrial.attribution.attribution import Array, Attribution
from captrial.attribution.subject import Subject, Targets

ROWS = 64  # images at a time


@dataclass(frozen=True, eq=False)
class Curves:
    """The probability of `w` words while elements are deleted, or inserted, in some order."""

    fractions: Array  # (p,) of elements deleted or inserted, from 0 to 1
    deletion: Array  # (w, p)
    insertion: Array  # (w, p)

    def areas(self) -> tuple[Array, Array]:
        """Areas under deletion and insertion curves, (w,) each: small and large are good."""
        deletion, insertion = (
            np.trapezoid(curve, self.fractions, axis=-1) for curve in (self.deletion, self.insertion)
        )
        return np.asarray(deletion), np.asarray(insertion)


def deletion_insertion(subject: Subject, targets: Targets, scores: Array, points: int = 11, rows: int = ROWS) -> Curves:
    """Curves of every word, elements deleted (or inserted into an empty image) in the order of its scores (w, e).

    A deleted element is zero: the baseline of integrated gradients. Give `random_order` for the chance level.
    """
    targets = replace(targets, kind="log_probability").to(subject.inputs.device)
    order = np.argsort(-scores, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")  # (w, e): the place of an element in its word's order
    fractions = np.linspace(0, 1, points)
    away = rank[:, None, :] < np.round(fractions * scores.shape[1])[None, :, None]  # (w, p, e)
    deletion, insertion = (_probabilities(subject, targets, keep, rows) for keep in (~away, away))
    return Curves(fractions, deletion, insertion)


def random_order(attribution: Attribution, seed: int = 0) -> Array:
    """Random scores: the chance level of deletion and insertion."""
    return np.random.default_rng(seed).random(attribution.scores.shape)


@torch.no_grad()
def _probabilities(subject: Subject, targets: Targets, keep: np.ndarray, rows: int) -> Array:
    """Probability of each word in its own row of images: `keep` (w, p, e) -> (w, p)."""
    words, points, elements = keep.shape
    flat = torch.from_numpy(keep.reshape(words * points, elements)).to(subject.inputs.device)
    scores = torch.cat(
        [targets.scores(_logits(subject, targets, part)) for part in torch.split(flat, rows)]
    )  # (w p, w)
    own = scores.view(words, points, words).diagonal(dim1=0, dim2=2).T  # (w, p)
    return own.exp().double().cpu().numpy()


def _logits(subject: Subject, targets: Targets, keep: Tensor) -> Tensor:
    """Logits with some elements or pixels only, `keep` (rows, e)."""
    shape = (len(keep), 1, *subject.inputs.shape[1:]) if subject.is_pixels else (*keep.shape, 1)
    return subject.forward(subject.inputs * keep.view(shape).to(subject.inputs.dtype), targets.tokens).logits


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """A copy of a model with random weights, each tensor drawn with its own mean and standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in copied.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter)
            spread = parameter.std(correction=0) if parameter.numel() > 1 else parameter.abs().mean()
            parameter.copy_(parameter.mean() + spread * noise)
    return copied


def agreement(first: Attribution, second: Attribution) -> Array:
    """Rank correlation (Spearman) of two attributions of the same elements, a word: (w,); 0 where one is constant."""
    pairs = zip(first.scores, second.scores, strict=True)
    return np.array([_rank_correlation(one, other) for one, other in pairs])


def _rank_correlation(one: Array, other: Array) -> float:
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other).statistic)
