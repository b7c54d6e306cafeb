"""ROUGE-L as the COCO toolkit computes it: beta 1.2, best precision and best recall over references separately.

Lengths of longest common subsequences are computed for many pairs at once, bit-parallel. One machine word holds the
whole dynamic-programming row of a pair (Hyyrö 2004): with `M` the positions of the pattern that hold the present word,
`V' = (V + (V & M)) | (V & ~M)`, starting from all ones; the zeros left at the end are the length. Pairs are grouped by
the width of word their pattern needs, and stepped together. Patterns above 64 words go through Python's integers, which
have any width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram_counts import Ints, TokenArrays
from captrial.metrics.scores import Candidates, MeanState, References, Scores

BETA = 1.2
Word = np.uint8 | np.uint16 | np.uint32 | np.uint64
WIDTHS: dict[int, type[Word]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def rouge_l(candidates: Candidates | Corpus, references: References | None = None) -> Scores:
    """ROUGE-L: F of the longest common subsequence.

    >>> from captrial.metrics.corpus import Corpus
    >>> round(rouge_l(Corpus(["1"], ["a dog runs"], [["a dog runs fast"]])).corpus, 6)
    0.835616
    """
    return RougeState.of(Corpus.prepare(candidates, references)).scores()


class RougeState(MeanState):
    """The mean of image scores."""

    @classmethod
    def of(cls, corpus: Corpus) -> RougeState:
        """Score one shard."""
        n = len(corpus)
        if not n:
            return cls({"rouge_l": np.zeros(0)})
        tokens = corpus.tokens_at_blanks
        pairs = np.arange(n, len(corpus.texts))
        candidates = corpus.image_of[pairs]
        common = lcs_lengths(tokens, candidates, pairs)
        starts = np.cumsum(corpus.reference_counts) - corpus.reference_counts
        precision = np.maximum.reduceat(common / tokens.lengths[candidates], starts)
        recall = np.maximum.reduceat(common / tokens.lengths[pairs], starts)
        below = recall + BETA**2 * precision
        return cls({"rouge_l": (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1.0)})


def lcs_lengths(tokens: TokenArrays, first: Ints, second: Ints) -> Ints:
    """(pairs,): common subsequence lengths of texts `first[p]` and `second[p]`."""
    lengths = tokens.lengths
    swap = lengths[first] > lengths[second]
    pattern, text = (
        np.where(swap, second, first),
        np.where(swap, first, second),
    )  # bits are the words of the shorter one
    result = np.zeros(len(first), dtype=np.int64)
    below = 0
    for width, word in WIDTHS.items():
        chosen = np.flatnonzero((lengths[pattern] > below) & (lengths[pattern] <= width))
        chosen = chosen[np.argsort(-lengths[text[chosen]], kind="stable")]  # those that still step are a prefix
        result[chosen] = _step(tokens, pattern[chosen], text[chosen], width, word)
        below = width
    for index in np.flatnonzero(lengths[pattern] > below):
        result[index] = _any_width(*(_words(tokens, side[index]) for side in (pattern, text)))
    return result


def _step(tokens: TokenArrays, pattern: Ints, text: Ints, width: int, word: type[Word]) -> Ints:
    rows = _padded(tokens, pattern, width)  # (pairs, width)
    starts, lengths = tokens.offsets[text], tokens.lengths[text]
    state: NDArray[Any] = np.full(len(pattern), np.iinfo(word).max, dtype=word)
    steps = int(lengths.max(initial=0))
    active = np.searchsorted(-lengths, -np.arange(steps), side="left")  # pairs with more than `step` words
    for step in range(steps):
        live = int(active[step])
        words = tokens.words[starts[:live] + step]
        match: NDArray[Any] = np.packbits(rows[:live] == words[:, None], axis=1, bitorder="little").view(word)[:, 0]
        held = state[:live]
        common = held & match
        state[:live] = (held + common) | (held - common)  # V & ~M is V minus its common bits
    lengths_found: Ints = width - np.bitwise_count(state).astype(np.int64)
    return lengths_found


def _padded(tokens: TokenArrays, chosen: Ints, width: int) -> NDArray[np.int32]:
    columns = np.arange(width)
    inside = columns < tokens.lengths[chosen][:, None]
    positions = np.where(inside, tokens.offsets[chosen][:, None] + columns, 0)
    return np.where(inside, tokens.words[positions], -1)


def _words(tokens: TokenArrays, index: int) -> list[int]:
    words: list[int] = tokens.words[tokens.offsets[index] : tokens.offsets[index + 1]].tolist()
    return words


def _any_width(pattern: list[int], text: list[int]) -> int:
    positions: dict[int, int] = {}
    for index, word in enumerate(pattern):
        positions[word] = positions.get(word, 0) | 1 << index
    ones = (1 << len(pattern)) - 1
    state = ones
    for word in text:
        common = state & positions.get(word, 0)
        state = ((state + common) | (state - common)) & ones
    return len(pattern) - state.bit_count()
