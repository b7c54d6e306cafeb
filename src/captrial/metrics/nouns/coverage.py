"""Coverage (Cornia 2022, Eq. 15): the share of the ground truth that the caption's nouns cover.

Maximum-profit assignment of the caption's distinct nouns to the ground truth, profit = max(sim, 0), divided by the size
of the ground truth: the object classes of the image where given, else the union of the references' nouns. An image
with no ground truth is left out and counted. The paper prints x100.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

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

Objects = Mapping[str, Sequence[str]]


def coverage(
    candidates: Candidates | Corpus,
    references: References | None = None,
    similarity: WordSimilarity | None = None,
    objects: Objects | None = None,
) -> Scores:
    """Coverage of the references' nouns, or of the `objects` of each image by id; in [0, 1]."""
    return CoverageState.of(Corpus.prepare(candidates, references), similarity=similarity, objects=objects).scores()


class CoverageState(MeanState):
    """The mean over images that have a ground truth."""

    @classmethod
    def of(
        cls, corpus: Corpus, similarity: WordSimilarity | None = None, objects: Objects | None = None
    ) -> CoverageState:
        """Score one shard."""
        n = len(corpus)
        similarity = similarity or default_similarity()
        nouns = [list(dict.fromkeys(row)) for row in corpus.noun_lists[:n]]
        sets = TokenArrays.of_words([*nouns, *_wanted(corpus, objects)])
        matches = set_similarities(sets, np.arange(n), np.arange(n, 2 * n), similarity)
        covered = np.array([assigned(np.maximum(matrix, 0)) for matrix in matches])
        sizes = sets.lengths[n:]
        values = np.full(n, np.nan)
        np.divide(covered, sizes, out=values, where=sizes > 0)
        return cls({"coverage": values}, similarity_note(similarity))


def set_similarities(sets: TokenArrays, first: Ints, second: Ints, similarity: WordSimilarity) -> Iterator[Floats]:
    """The (m, n) similarities of each pair of noun sets."""
    table = SimilarityTable(sets, first, second, similarity)
    words = [sets.words[a:b] for a, b in pairwise(sets.offsets.tolist())]
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        yield table.between(words[one][:, None], words[other])


def assigned(profit: Floats) -> float:
    """The largest total of an assignment, one row to one column (Hungarian algorithm)."""
    from scipy.optimize import linear_sum_assignment  # takes a second to import

    if not profit.size:
        return 0.0
    return float(profit[linear_sum_assignment(profit, maximize=True)].sum())


def _wanted(corpus: Corpus, objects: Objects | None) -> list[list[str]]:
    if objects is not None:
        return [list(dict.fromkeys(objects.get(image, ()))) for image in corpus.ids]
    n, nouns = len(corpus), corpus.noun_lists
    ends = np.cumsum([n, *corpus.reference_counts])
    return [list(dict.fromkeys(noun for row in nouns[a:b] for noun in row)) for a, b in pairwise(ends)]
