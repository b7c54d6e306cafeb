"""From captions to METEOR's statistics: number the words, align every candidate with its references, keep the best."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError
from captrial.metrics.meteor.resources import MeteorResources
from captrial.metrics.meteor.score import STATISTICS, meteor_scores
from captrial.progress import track

_PAIRS_AT_ONCE = 1 << 18  # bounds the memory that the statistics of all pairs take


def meteor_stats(
    candidates: Sequence[str], references: Sequence[Sequence[str]], *, resources: MeteorResources | None = None
) -> NDArray[np.int64]:
    """METEOR's statistics of each candidate with the reference that scores best; (n, 23), see `meteor.score`.

    Captions are tokenised, lower-cased, stripped of punctuation and joined by blanks. Rows of several calls can be
    stacked: `meteor_corpus` of them all is the score of the whole.
    """
    from captrial.metrics.meteor.align import align_pairs  # here, because numba takes a while to import
    from captrial.metrics.meteor.match import prepare

    _check(candidates, references)
    resources = resources or MeteorResources.find()
    distinct: dict[str, int] = {}
    number = distinct.setdefault
    # COCO's wrapper takes the separator of its protocol out of candidates.
    first = np.array([number(line.replace("|||", ""), len(distinct)) for line in candidates], np.int32)
    second = np.array([number(line, len(distinct)) for lines in references for line in lines], np.int32)
    matchable = prepare(distinct, resources)
    counts = np.array([len(lines) for lines in references], np.int64)
    start = np.concatenate([[0], np.cumsum(counts)])
    stats = np.empty((len(first), STATISTICS), np.int64)
    for rows in track(_blocks(start), resources.name):
        pairs = slice(start[rows.start], start[rows.stop])
        aligned = align_pairs(matchable, np.repeat(first[rows], counts[rows]), second[pairs])
        stats[rows] = aligned[_first_best(meteor_scores(aligned), start[rows.start : rows.stop + 1] - pairs.start)]
    return stats


def _check(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if len(candidates) != len(references):
        raise InputError(f"{len(candidates)} candidates but {len(references)} lists of references; they must align")
    for index, lines in enumerate(references):
        if isinstance(lines, str) or not len(lines):
            raise InputError(f"candidate {index} needs a list of at least one reference, not {lines!r}")


def _blocks(start: NDArray[np.int64]) -> list[slice]:
    """Runs of segments that have about `_PAIRS_AT_ONCE` pairs each."""
    edges = np.searchsorted(start, np.arange(0, start[-1], _PAIRS_AT_ONCE))
    return [slice(int(a), int(b)) for a, b in pairwise(np.unique([*edges, len(start) - 1]))]


def _first_best(scores: NDArray[np.float64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of the highest score of every segment, the first among equals."""
    best = np.repeat(np.maximum.reduceat(scores, start[:-1]), np.diff(start))
    winners = np.flatnonzero(scores == best)
    return winners[np.searchsorted(winners, start[:-1])]
