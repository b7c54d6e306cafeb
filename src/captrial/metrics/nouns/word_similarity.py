"""Similarities of words for NW, Coverage and noun IoU: the default similarity, and a table of all pairs needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.ngram_counts import Ints, TokenArrays

Floats = NDArray[np.float64]
ROWS = 256  # words whose similarities are computed at once: bounds memory, not results


class WordSimilarity(Protocol):
    """`captrial.language.similarity.Similarity`, or anything that compares words so."""

    def matrix(self, words: Sequence[str], others: Sequence[str], /) -> NDArray[np.floating]:
        """(words, others): similarities in [-1, 1], 1 for equal words."""
        ...


def default_similarity() -> WordSimilarity:
    """Synonym and hyponym lists, then the installed word vectors."""
    from captrial.language.similarity import Similarity

    return Similarity.default()


def similarity_note(similarity: WordSimilarity) -> tuple[str, ...]:
    """How words were compared, as every table that depends on it must say."""
    description = getattr(similarity, "description", None)
    return (f"words compared by {description}",) if description else ()


class SimilarityTable:
    """Similarities of the words of texts `first` to those of `second`, each distinct pair computed once."""

    def __init__(self, tokens: TokenArrays, first: Ints, second: Ints, similarity: WordSimilarity) -> None:
        left, self._row = _distinct(tokens, first)
        right, self._column = _distinct(tokens, second)
        starts = range(0, len(left) if right else 0, ROWS)
        blocks = [similarity.matrix(left[start : start + ROWS], right) for start in starts]
        self._matrix = np.concatenate(blocks) if blocks else np.zeros((len(left), len(right)))

    def between(self, words: NDArray[np.int32], others: NDArray[np.int32]) -> Floats:
        """Similarities of word ids, broadcast: `(m, 1)` and `(n,)` give (m, n)."""
        found: Floats = self._matrix[self._row[words], self._column[others]].astype(np.float64)
        return found


def _distinct(tokens: TokenArrays, chosen: Ints) -> tuple[list[str], Ints]:
    """The distinct words of some texts, and the place of every word of the vocabulary among them."""
    held = np.zeros(len(tokens), dtype=bool)
    held[chosen] = True
    ids = np.unique(tokens.words[np.repeat(held, tokens.lengths)])
    place = np.zeros(len(tokens.vocabulary), dtype=np.int64)
    place[ids] = np.arange(len(ids))
    return [tokens.vocabulary[index] for index in ids], place
