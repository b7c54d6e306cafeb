"""How much the winner hangs on single images: the fewest whose removal makes another model win.

One and two images are searched exhaustively, so "no two images can change the winner" is a fact. Beyond two the
search is greedy and its answer is an upper bound, and named so. A removed image leaves every D_ij that holds it and
is not replaced; document frequencies stay fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.dominance import ratios
from captrial.compete.ranking.evidence import Evidence
from captrial.compete.ranking.perron import connected, ranking_vectors
from captrial.progress import track

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EXHAUSTIVE = 6000  # images; beyond, pairs of images are too many to try them all
_DUST = 1e-12  # what subtraction leaves of a sum that should be zero


@dataclass(frozen=True, slots=True)
class FlipReport:
    """The smallest set of images found whose removal changes the winner."""

    winner: str
    margin: float  # how much larger the winner's score is than the second's: q_1 / q_2
    removed: tuple[str, ...]  # empty where no set was found
    new_winner: str | None
    method: str  # "exact" or "greedy upper bound"
    influential: tuple[tuple[str, float], ...]  # images whose removal costs the winner most, with the margin then

    def sentence(self) -> str:
        """The finding in words."""
        if self.new_winner is None:
            return f"No set of images was found whose removal makes another model than {self.winner} win."
        count = len(self.removed)
        how = "exactly" if self.method == "exact" else "at most"
        images = "1 image" if count == 1 else f"{count} images"
        return f"{self.winner} wins; without {how} {images} {self.new_winner} would."


def flip_report(evidence: Evidence, influential: int = 10) -> FlipReport:
    """Search for the fewest images whose removal changes the winner."""
    base = ranking_vectors(ratios(evidence.scores())[None])[0]
    winner = int(np.argmax(base))
    margins = _margins(_scores_without(evidence, [], np.arange(len(evidence.images))), winner)
    removed, method = _fewest(evidence, winner, margins)
    after = _scores_without(evidence, removed[:-1], np.array(removed[-1:]))[0] if removed else base
    order = np.argsort(margins, kind="stable")[:influential]
    return FlipReport(
        winner=evidence.models[winner],
        margin=float(_margins(base[None], winner)[0]),
        removed=tuple(evidence.images[index] for index in removed),
        new_winner=evidence.models[int(np.argmax(after))] if removed else None,
        method=method,
        influential=tuple((evidence.images[index], float(margins[index])) for index in order),
    )


def _fewest(evidence: Evidence, winner: int, margins: Floats) -> tuple[list[int], str]:
    if margins.size and margins.min() < 1:
        return [int(np.argmin(margins))], "exact"
    if len(evidence.images) <= _EXHAUSTIVE:
        two = _two(evidence, winner)
        if two is not None:
            return two, "exact"
    return _greedy(evidence, winner), "greedy upper bound"


def _two(evidence: Evidence, winner: int) -> list[int] | None:
    """The two images whose removal leaves the smallest margin, if that changes the winner; all are tried."""
    best, chosen = 1.0, None
    images = np.arange(len(evidence.images))
    for first in track(images[:-1], "pairs of images"):
        others = images[first + 1 :]
        margins = _margins(_scores_without(evidence, [int(first)], others), winner)
        at = int(np.argmin(margins))
        if margins[at] < best:
            best, chosen = float(margins[at]), [int(first), int(others[at])]
    return chosen


def _greedy(evidence: Evidence, winner: int) -> list[int]:
    """Take away, again and again, the image that helps one rival most; the best rival counts."""
    found: list[int] = []
    for rival in range(len(evidence.models)):
        if rival != winner:
            removed = _greedy_for(evidence, winner, rival, len(found) or len(evidence.images))
            found = removed if removed and (not found or len(removed) < len(found)) else found
    return found


def _greedy_for(evidence: Evidence, winner: int, rival: int, most: int) -> list[int]:
    removed: list[int] = []
    left = np.arange(len(evidence.images))
    while len(removed) < most - 1 and len(left):
        scores = _scores_without(evidence, removed, left)
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


def _scores_without(evidence: Evidence, gone: list[int], one_more: Ints) -> Floats:
    """Ranking vectors (n, m) without the images `gone` and one of `one_more` (n,); NaN where models fall apart."""
    table = evidence.contributions
    totals = table.sum(axis=0) - table[gone].sum(axis=0) - table[one_more]
    totals[np.abs(totals) < _DUST * np.abs(table).sum(axis=0)] = 0.0
    counts = evidence.labelled - evidence.membership[gone].sum(axis=0) - evidence.membership[one_more]
    f = ratios(evidence.scores_of_totals(totals, counts))
    scores = ranking_vectors(f)
    scores[~connected(f)] = np.nan
    return scores


def _margins(scores: Floats, winner: int) -> Floats:
    """(n,) the winner's score over the best other; below 1 somebody else wins; unranked removals count as no change."""
    others = np.delete(scores, winner, axis=-1).max(axis=-1)
    return np.asarray(np.nan_to_num(scores[:, winner] / others, nan=np.inf))
