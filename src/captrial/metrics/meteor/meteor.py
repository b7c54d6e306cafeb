"""METEOR 1.5: the score formula, statistics of captions against their best reference, and the metric's state.

A row of statistics has 23 counts: words of the candidate and of the reference, function words of both; for each of the
modules exact, stem, synonym and paraphrase the matched content words (candidate, reference) and function words
(candidate, reference); chunks; matched words of the candidate and of the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError, MismatchError
from captrial.metrics.corpus import Corpus
from captrial.metrics.meteor.resources import MeteorResources
from captrial.metrics.scores import Candidates, References, Scores
from captrial.progress import track

CHUNKS = 20  # column of the chunks among the statistics
# The parameters of task `rank` for English, which COCO's evaluation uses.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
_PAIRS_AT_ONCE = 1 << 18  # bounds the memory that the statistics of all pairs take
_REDUCED = "meteor_exact_stem matches exact words and stems only; METEOR's data files: pip install 'captrial[meteor]'"


def meteor_scores(stats: NDArray[Any]) -> NDArray[np.float64]:
    """The score of every row of statistics; (..., 23) -> (...).

    >>> row = [2, 2, 1, 1, 1, 1, 1, 1, *[0] * 12, 1, 2, 2]  # "a dog" against "a dog"
    >>> meteor_scores(np.array([row])).tolist()
    [1.0]
    """
    stats = np.asarray(stats, np.float64)
    function = stats[..., 2:4]  # (..., 2): candidate, reference
    length = DELTA * (stats[..., :2] - function) + (1 - DELTA) * function
    modules = stats[..., 4:CHUNKS].reshape(*stats.shape[:-1], 4, 2, 2)  # module, content or function, side
    weighted = MODULE_WEIGHTS[:, None] * (DELTA * modules[..., 0, :] + (1 - DELTA) * modules[..., 1, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = weighted.sum(axis=-2) / length
        precision, recall = sides[..., 0], sides[..., 1]
        f_mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = additive(stats)[..., CHUNKS] / ((stats[..., 21] + stats[..., 22]) / 2)
        scores = f_mean * (1 - GAMMA * fragmentation**BETA)
    bounded: NDArray[np.float64] = np.maximum(np.nan_to_num(scores, nan=0.0), 0.0)
    return bounded


def meteor_corpus(stats: NDArray[Any]) -> float:
    """The score of a corpus (n, 23): that of its summed statistics, not the mean of the segments' scores."""
    return float(meteor_scores(additive(stats).sum(axis=0)))


def additive(stats: NDArray[Any]) -> NDArray[Any]:
    """Statistics as they are summed: where all words of both sides match in one chunk, nothing is fragmented."""
    whole = (stats[..., 21] == stats[..., 0]) & (stats[..., 22] == stats[..., 1]) & (stats[..., CHUNKS] == 1)
    added: NDArray[Any] = np.where(whole[..., None] & (np.arange(stats.shape[-1]) == CHUNKS), 0, stats)
    return added


def meteor_stats(
    candidates: Sequence[str], references: Sequence[Sequence[str]], *, resources: MeteorResources | None = None
) -> NDArray[np.int64]:
    """METEOR's statistics of each candidate with the reference that scores best; (n, 23), see the module's docstring.

    Captions are tokenised, lower-cased, stripped of punctuation and joined by blanks. Rows of several calls can be
    stacked: `meteor_corpus` of them all is the score of the whole.
    """
    from captrial.metrics.meteor.alignment import STATISTICS, align_pairs  # imports numba: not at start-up
    from captrial.metrics.meteor.matching import prepare

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


def meteor(
    candidates: Candidates | Corpus, references: References | None = None, resources: MeteorResources | None = None
) -> Scores:
    """METEOR 1.5; without its data files `meteor_exact_stem`, which is another metric and named so."""
    return MeteorState.of(Corpus.prepare(candidates, references), resources).scores()


@dataclass(frozen=True)
class MeteorState:
    """The statistics of each image's best reference, (n, 23)."""

    name: str
    stats: NDArray[np.int64]

    @classmethod
    def of(cls, corpus: Corpus, resources: MeteorResources | None = None) -> Self:
        """Align one shard."""
        resources = resources or MeteorResources.find()
        return cls(resources.name, meteor_stats(corpus.candidates, corpus.references, resources=resources))

    @classmethod
    def merge(cls, states: Sequence[Self]) -> Self:
        """The images of all shards, in order."""
        names = sorted({state.name for state in states})
        if len(names) != 1:
            raise MismatchError(f"shards of {' and '.join(names)} cannot be merged; score all with the same data files")
        return cls(names[0], np.concatenate([state.stats for state in states]))

    def scores(self) -> Scores:
        """METEOR of the summed statistics, and of each image's own."""
        notes = () if self.name == "meteor" else (_REDUCED,)
        return Scores(self.name, meteor_corpus(self.stats), meteor_scores(self.stats), notes=notes)

    def statistics(self) -> NDArray[np.float64]:
        """(n, 23): the statistics that add up; a segment matched as a whole adds no chunk."""
        return additive(self.stats).astype(np.float64)

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The formula applied to sums of statistics."""
        return {self.name: meteor_scores(totals)}

    def with_statistics(self, statistics: NDArray[np.float64]) -> MeteorState:
        """Additive statistics (n, 23) of other images; making them additive again changes nothing."""
        return MeteorState(self.name, statistics.astype(np.int64))
