"""Sensitivity of the winner to single images: the fewest images whose removal makes another model win.

One and two images are searched exhaustively, so the answer is exact. Beyond two the search is greedy, its answer is an
upper bound and reported as one. A removed image leaves every D_ij that holds it and is not replaced; document
frequencies stay fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import connected, connection, ranking_vectors, ratios
from captrial.errors import StateError
from captrial.progress import track

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EXHAUSTIVE = 6000  # images; beyond, pairs of images are too many to try them all
_ROUNDING = 1e-12  # relative size below which a difference of sums counts as zero


@dataclass(frozen=True, slots=True)
class FlipReport:
    """The smallest set of images found whose removal changes the winner."""

    winner: str
    margin: float  # how much larger the winner's score is than the second's: q_1 / q_2
    removed: tuple[str, ...]  # empty where no set was found
    new_winner: str | None
    method: str  # "exact" or "greedy upper bound"
    influential: tuple[tuple[str, float], ...]  # images whose removal costs the winner most, with the margin then

    def summary(self) -> str:
        """The result as one sentence."""
        if self.new_winner is None:
            return f"No set of images was found whose removal makes another model than {self.winner} win."
        count = len(self.removed)
        images = "1 image" if count == 1 else f"{count} images"
        fewer = " (no fewer do)" if self.method == "exact" and count > 1 else " (perhaps fewer do)" if count > 1 else ""
        return f"{self.winner} wins; if {images} were left out, {self.new_winner} would win{fewer}."


def flip_report(pairwise: PairwiseScores, influential: int = 10) -> FlipReport:
    """Search for the fewest images whose removal changes the winner of `rank_models`, with its weights and models."""
    pairwise = pairwise.weighted()
    ranked = connection(ratios(pairwise.matrix()))
    if ranked.sum() < 2:
        raise StateError("no two models have labelled images in common; label more images first")
    pairwise = pairwise.among(ranked)
    base = ranking_vectors(ratios(pairwise.matrix())[None])[0]
    winner = int(np.argmax(base))
    margins = _margins(_scores_without(pairwise, [], np.arange(len(pairwise.images))), winner)
    removed, method = _fewest(pairwise, winner, margins)
    after = _scores_without(pairwise, removed[:-1], np.array(removed[-1:]))[0] if removed else base
    order = np.argsort(margins, kind="stable")[:influential]
    return FlipReport(
        winner=pairwise.models[winner],
        margin=float(_margins(base[None], winner)[0]),
        removed=tuple(pairwise.images[index] for index in removed),
        new_winner=pairwise.models[int(np.argmax(after))] if removed else None,
        method=method,
        influential=tuple((pairwise.images[index], float(margins[index])) for index in order),
    )


def _fewest(pairwise: PairwiseScores, winner: int, margins: Floats) -> tuple[list[int], str]:
    if margins.size and margins.min() < 1:
        return [int(np.argmin(margins))], "exact"
    if len(pairwise.images) <= _EXHAUSTIVE:
        two = _two(pairwise, winner)
        if two is not None:
            return two, "exact"
    return _greedy(pairwise, winner), "greedy upper bound"


def _two(pairwise: PairwiseScores, winner: int) -> list[int] | None:
    """The two images whose removal leaves the smallest margin, if that changes the winner; all are tried."""
    best, chosen = 1.0, None
    images = np.arange(len(pairwise.images))
    for first in track(images[:-1], "pairs of images"):
        others = images[first + 1 :]
        margins = _margins(_scores_without(pairwise, [int(first)], others), winner)
        at = int(np.argmin(margins))
        if margins[at] < best:
            best, chosen = float(margins[at]), [int(first), int(others[at])]
    return chosen


def _greedy(pairwise: PairwiseScores, winner: int) -> list[int]:
    """Remove, repeatedly, the image that helps one rival most; the smallest set over all rivals."""
    found: list[int] = []
    for rival in range(len(pairwise.models)):
        if rival != winner:
            removed = _greedy_for(pairwise, winner, rival, len(found) or len(pairwise.images))
            found = removed if removed and (not found or len(removed) < len(found)) else found
    return found


def _greedy_for(pairwise: PairwiseScores, winner: int, rival: int, most: int) -> list[int]:
    removed: list[int] = []
    left = np.arange(len(pairwise.images))
    while len(removed) < most - 1 and len(left):
        scores = _scores_without(pairwise, removed, left)
        known = ~np.isnan(scores).any(axis=1)
        lead = np.where(known, scores[:, winner] / scores[:, rival], np.inf)
        at = int(np.argmin(lead))
        if not np.isfinite(lead[at]):
            return []
        removed.append(int(left[at]))
        left = np.delete(left, at)
        if int(np.argmax(scores[at])) != winner:
            return removed
    return []


def _scores_without(pairwise: PairwiseScores, gone: list[int], one_more: Ints) -> Floats:
    """Ranking vectors (n, m) without the images `gone` and one of `one_more` (n,); NaN if models are unconnected."""
    table = pairwise.contributions
    totals = table.sum(axis=0) - table[gone].sum(axis=0) - table[one_more]
    totals[np.abs(totals) < _ROUNDING * np.abs(table).sum(axis=0)] = 0.0
    counts = pairwise.labelled - pairwise.membership[gone].sum(axis=0) - pairwise.membership[one_more]
    f = ratios(pairwise.matrix_of_totals(totals, counts))
    known = connected(f)
    scores = np.full(f.shape[:-1], np.nan)
    scores[known] = ranking_vectors(f[known])
    return scores


def _margins(scores: Floats, winner: int) -> Floats:
    """(n,) the winner's score over the best other; below 1 another model wins; unranked removals count as no change."""
    others = np.delete(scores, winner, axis=-1).max(axis=-1)
    return np.asarray(np.nan_to_num(scores[:, winner] / others, nan=np.inf))
