"""Bradley-Terry strengths from single wins: which model's caption of an image scored higher, image by image.

A cross-check of the ranking by ratios: it hears only who won, not by how much. It also ranks by what people preferred
(`judgements.jsonl`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.evidence import Evidence

Floats = NDArray[np.float64]

_PRIOR = 0.5  # wins added to both sides of every pair that met: a model that never lost keeps a finite strength


@dataclass(frozen=True)
class Strengths:
    """Fitted strengths: model i beats j with probability `strength[i] / (strength[i] + strength[j])`."""

    strength: Floats  # (m,) summing to 1
    error: Floats  # (m,) standard error of log strength (relative to the mean)
    wins: Floats  # (m, m) wins of i over j; a tie is half a win for each


def wins_by_metric(evidence: Evidence) -> Floats:
    """Wins (m, m) on the labelled images of every D_ij; equal scores are half a win each."""
    wins = np.zeros((len(evidence.models), len(evidence.models)))
    for pair in evidence.pairs:
        first, second = pair.per_image.T
        known = ~np.isnan(first + second)
        ties = 0.5 * float((first[known] == second[known]).sum())
        i, j = pair.models
        wins[i, j] += float((first[known] > second[known]).sum()) + ties
        wins[j, i] += float((first[known] < second[known]).sum()) + ties
    return wins


def fit(wins: Floats) -> Strengths:
    """Maximum likelihood by Hunter's minorisation, with half a win added to both sides of every pair that met.

    >>> fit(np.array([[0.0, 3.0], [1.0, 0.0]])).strength.round(3)
    array([0.7, 0.3])
    """
    met = wins + wins.T > 0
    won = wins + _PRIOR * met
    games = won + won.T
    strength = np.full(len(wins), 1.0 / len(wins))
    for _ in range(10_000):
        pulled = (games / (strength[:, None] + strength[None, :])).sum(axis=1)
        updated = np.where(pulled > 0, won.sum(axis=1) / np.where(pulled > 0, pulled, 1.0), strength)
        updated /= updated.sum()
        change = float(np.abs(updated - strength).max())
        strength = updated
        if change < 1e-14:
            break
    return Strengths(strength, _standard_errors(strength, games), wins)


def _standard_errors(strength: Floats, games: Floats) -> Floats:
    """From the inverse Fisher information of the log strengths, whose sum is held at zero."""
    share = strength[:, None] / (strength[:, None] + strength[None, :])
    information = -games * share * (1 - share)
    np.fill_diagonal(information, 0.0)
    np.fill_diagonal(information, -information.sum(axis=1))
    return np.sqrt(np.maximum(np.diag(np.linalg.pinv(information)), 0.0))
