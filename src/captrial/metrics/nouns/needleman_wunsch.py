"""NW (Cornia 2022, Eq. 14): Needleman-Wunsch alignment of the two noun sequences.

Match = similarity, gap = -1, divided by the longer length: 1 for the same nouns in the same order, -1 where one side
has none, 0 where both have none. Several references: their mean, or their best.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram_counts import Ints, TokenArrays
from captrial.metrics.nouns.word_similarity import (
    Floats,
    SimilarityTable,
    WordSimilarity,
    default_similarity,
    similarity_note,
)
from captrial.metrics.scores import Candidates, MeanState, References, Scores

GAP = -1.0
CELLS = 1_000_000  # of the padded rows worked on at once
Over = Literal["mean", "max"]


def nw(
    candidates: Candidates | Corpus,
    references: References | None = None,
    similarity: WordSimilarity | None = None,
    over: Over = "mean",
) -> Scores:
    """NW of each caption against its references, `over` which the mean or the maximum is taken; in [-1, 1]."""
    return NwState.of(Corpus.prepare(candidates, references), similarity=similarity, over=over).scores()


class NwState(MeanState):
    """The mean of image scores."""

    @classmethod
    def of(cls, corpus: Corpus, similarity: WordSimilarity | None = None, over: Over = "mean") -> NwState:
        """Score one shard."""
        n = len(corpus)
        pairs = np.arange(n, len(corpus.texts))
        similarity = similarity or default_similarity()
        values = nw_scores(corpus.nouns, corpus.image_of[pairs], pairs, similarity)
        starts = np.cumsum(corpus.reference_counts) - corpus.reference_counts
        best = np.maximum.reduceat(values, starts) if n else values
        mean = np.bincount(corpus.image_of[pairs], values, minlength=n) / corpus.reference_counts
        return cls({"nw": best if over == "max" else mean}, similarity_note(similarity))


def nw_scores(nouns: TokenArrays, first: Ints, second: Ints, similarity: WordSimilarity) -> Floats:
    """(pairs,): the normalised alignment score of noun sequences `first[p]` and `second[p]`."""
    table = SimilarityTable(nouns, first, second, similarity)
    rows, columns = nouns.lengths[first], nouns.lengths[second]
    aligned = np.empty(len(first))
    rest = np.argsort(columns, kind="stable")
    while len(rest):
        padded = np.arange(1, len(rest) + 1) * (columns[rest] + 1)  # cells of a row if the batch ended here
        size = max(1, int(np.searchsorted(padded, CELLS)))
        batch, rest = rest[:size], rest[size:]
        batch = batch[np.argsort(-rows[batch], kind="stable")]  # those that still have a row are a prefix
        aligned[batch] = _align(nouns, first[batch], second[batch], table)
    return aligned / np.maximum(np.maximum(rows, columns), 1)


def _align(nouns: TokenArrays, first: Ints, second: Ints, similarity: SimilarityTable) -> Floats:
    """(pairs,): D[m, n] of D[i, j] = max(D[i-1, j-1] + sim, D[i-1, j] - 1, D[i, j-1] - 1), by rows of all pairs."""
    rows, columns = nouns.lengths[first], nouns.lengths[second]
    starts, width = nouns.offsets[first], int(columns.max(initial=0))
    inside = np.arange(width) < columns[:, None]
    words = nouns.words[np.where(inside, nouns.offsets[second][:, None] + np.arange(width), 0)]  # (pairs, width)
    slope = GAP * np.arange(width + 1)
    table = np.tile(slope, (len(first), 1))  # D[0, j]
    for row in range(int(rows.max(initial=0))):
        live = int(np.searchsorted(-rows, -row, side="left"))  # pairs with more than `row` nouns
        match = similarity.between(nouns.words[starts[:live] + row][:, None], words[:live])
        step = np.empty((live, width + 1))
        step[:, 0] = GAP * (row + 1)
        step[:, 1:] = np.maximum(table[:live, :-1] + match, table[:live, 1:] + GAP)
        # gaps along the row: the best k <= j of step[k] + GAP * (j - k), a running maximum once the slope is taken off
        table[:live] = np.maximum.accumulate(step - slope, axis=1) + slope
    return np.asarray(table[np.arange(len(first)), columns])
