"""What NW, Coverage and noun IoU share: nouns as flat ids, and similarities of all their pairs in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.sentences import Ints, Sentences

Floats = NDArray[np.float64]
BLOCK = 256  # words whose similarities are computed at once: bounds memory, not results


class WordSimilarity(Protocol):
    """`captrial.language.similarity.Similarity`, or anything that compares words so."""

    def matrix(self, words: Sequence[str], others: Sequence[str], /) -> NDArray[np.floating]:
        """(words, others): similarities in [-1, 1], 1 for equal words."""
        ...


@dataclass(frozen=True)
class PairSimilarities:
    """For each pair of sentences, the (m, n) similarities of their words, flat."""

    values: Floats
    offsets: Ints  # (pairs + 1,)
    rows: Ints  # (pairs,) m
    columns: Ints  # (pairs,) n

    def __iter__(self) -> Iterator[Floats]:
        """The (m, n) matrices, pair by pair."""
        for pair, (m, n) in enumerate(zip(self.rows.tolist(), self.columns.tolist(), strict=True)):
            yield self.values[self.offsets[pair] : self.offsets[pair + 1]].reshape(m, n)


def default_similarity() -> WordSimilarity:
    """Synonym and hyponym lists, then the installed word vectors."""
    from captrial.language.similarity import Similarity

    return Similarity.default()


def similarity_note(similarity: WordSimilarity) -> tuple[str, ...]:
    """How words were compared, as every table that depends on it must say."""
    description = getattr(similarity, "description", None)
    return (f"words compared by {description}",) if description else ()


def number_nouns(nouns: Sequence[Sequence[str]]) -> Sentences:
    """Lists of nouns as flat ids."""
    flat = list(chain.from_iterable(nouns))
    index = {noun: number for number, noun in enumerate(dict.fromkeys(flat))}
    words = np.fromiter(map(index.__getitem__, flat), np.int32, len(flat))
    return Sentences(words, np.cumsum([0, *map(len, nouns)]), tuple(index))


def pair_similarities(sentences: Sentences, first: Ints, second: Ints, similarity: WordSimilarity) -> PairSimilarities:
    """Similarities between the words of sentences `first[p]` and `second[p]`."""
    rows, columns = sentences.lengths[first], sentences.lengths[second]
    sizes = rows * columns
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    pair = np.repeat(np.arange(len(first)), sizes)
    row, column = np.divmod(np.arange(len(pair)) - offsets[pair], columns[pair])
    left = sentences.words[sentences.offsets[first][pair] + row]
    right = sentences.words[sentences.offsets[second][pair] + column]
    return PairSimilarities(_compare(sentences.vocabulary, left, right, similarity), offsets, rows, columns)


def _compare(
    words: Sequence[str], left: NDArray[np.int32], right: NDArray[np.int32], similarity: WordSimilarity
) -> Floats:
    """(p,): similarity of each pair of word numbers; each distinct pair is computed once, block by block."""
    distinct, where = np.unique(left.astype(np.int64) * len(words) + right, return_inverse=True)
    one, other = np.divmod(distinct, max(len(words), 1))
    values = np.empty(len(distinct))
    for start in range(0, len(words), BLOCK):
        block = slice(*np.searchsorted(one, [start, start + BLOCK]))
        if block.start < block.stop:
            rows, row = np.unique(one[block], return_inverse=True)
            columns, column = np.unique(other[block], return_inverse=True)
            matrix = similarity.matrix([words[i] for i in rows], [words[i] for i in columns])
            values[block] = np.asarray(matrix)[row, column]
    return values[where]
