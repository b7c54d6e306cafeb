"""Coverage (Cornia 2022, Eq. 15): the share of the ground truth that the caption's nouns cover.

Maximum-profit assignment of the caption's distinct nouns to the ground truth, profit = max(sim, 0), divided by the size
of the ground truth: the object classes of the image where given, else the nouns of a reference, and the mean over the
references that have a noun. With `union` it is the union of the references' nouns instead, which few captions can
cover. An image with no ground truth is left out and counted. The paper prints x100.
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
    union: bool = False,
) -> Scores:
    """Coverage of the references' nouns, or of the `objects` of each image by id; in [0, 1]."""
    corpus = Corpus.prepare(candidates, references)
    return CoverageState.of(corpus, similarity=similarity, objects=objects, union=union).scores()


class CoverageState(MeanState):
    """The mean over images that have a ground truth."""

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        similarity: WordSimilarity | None = None,
        objects: Objects | None = None,
        union: bool = False,
    ) -> CoverageState:
        """Score one shard."""
        n = len(corpus)
        similarity = similarity or default_similarity()
        nouns = [list(dict.fromkeys(row)) for row in corpus.noun_lists[:n]]
        wanted = _wanted(corpus, objects, union)
        image = np.repeat(np.arange(n), [len(each) for each in wanted])
        sets = TokenArrays.of_words([*nouns, *(one for each in wanted for one in each)])
        matches = set_similarities(sets, image, np.arange(n, n + len(image)), similarity)
        shares = np.array([assigned(np.maximum(matrix, 0)) / matrix.shape[1] for matrix in matches])
        counts = np.bincount(image, minlength=n)
        values = np.full(n, np.nan)
        np.divide(np.bincount(image, shares, minlength=n), counts, out=values, where=counts > 0)
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


def _wanted(corpus: Corpus, objects: Objects | None, union: bool) -> list[list[list[str]]]:
    """Of every image the sets of nouns to cover, without empty ones."""
    n, nouns = len(corpus), corpus.noun_lists
    ends = np.cumsum([n, *corpus.reference_counts])
    if objects is not None:
        found = [[list(objects.get(image, ()))] for image in corpus.ids]
    elif union:
        found = [[[noun for row in nouns[a:b] for noun in row]] for a, b in pairwise(ends)]
    else:
        found = [[list(row) for row in nouns[a:b]] for a, b in pairwise(ends)]
    return [[list(dict.fromkeys(row)) for row in each if row] for each in found]
