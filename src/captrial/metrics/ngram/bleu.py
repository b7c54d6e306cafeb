"""BLEU-1..4 as the COCO toolkit computes it: closest reference length, clipped counts, its two smoothing constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram_counts import ORDERS
from captrial.metrics.scores import Candidates, References, Scores

NAMES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4")
TINY, SMALL = 1e-15, 1e-9  # keep 0 / 0 at 0; part of the toolkit's definition


def bleu(candidates: Candidates | Corpus, references: References | None = None) -> Scores:
    """BLEU-4, with BLEU-1..4 as parts.

    >>> from captrial.metrics.corpus import Corpus
    >>> corpus = Corpus(["1"], ["a dog runs"], [["a dog runs fast", "the dog is running"]])
    >>> round(bleu(corpus).parts["bleu_2"].corpus, 6)
    0.716531
    """
    return BleuState.of(Corpus.prepare(candidates, references)).scores()


@dataclass(frozen=True)
class BleuState:
    """Clipped matches of orders 1..4, n-grams of orders 1..4, words, closest reference length: (n, 10)."""

    counts: NDArray[np.float64]

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Count one shard."""
        n = len(corpus)
        lengths = corpus.tokens.lengths
        words = lengths[:n]
        matches = [
            np.bincount(order.image, np.minimum(order.most, order.candidate), minlength=n)[:n]
            for order in corpus.counts
        ]
        possible = [np.maximum(words - order, 0) for order in range(ORDERS)]
        return cls(np.stack([*matches, *possible, words, closest_lengths(corpus)], axis=1).astype(np.float64))

    @classmethod
    def merge(cls, states: Sequence[Self]) -> Self:
        """The images of all shards, in order."""
        return cls(np.concatenate([state.counts for state in states]))

    def scores(self) -> Scores:
        """BLEU of the summed counts, and of each image's own."""
        corpus, images = self.corpus_scores(self.counts.sum(axis=0)), self.corpus_scores(self.counts)
        parts = {name: Scores(name, float(corpus[name]), images[name]) for name in NAMES}
        return Scores("bleu_4", parts["bleu_4"].corpus, parts["bleu_4"].per_image, parts)

    def statistics(self) -> NDArray[np.float64]:
        """(n, 10): the counts."""
        return self.counts

    def with_statistics(self, statistics: NDArray[np.float64]) -> BleuState:
        """The counts (n, 10) of other images."""
        return BleuState(statistics)

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Geometric mean of the precisions times the brevity penalty."""
        matches, possible, words, wanted = np.split(totals, [ORDERS, 2 * ORDERS, 2 * ORDERS + 1], axis=-1)
        products = np.cumprod((matches + TINY) / (possible + SMALL), axis=-1)  # (..., 4)
        ratio = (words + TINY) / (wanted + SMALL)
        brevity = np.exp(np.minimum(1 - 1 / ratio, 0))
        values = products ** (1 / np.arange(1, ORDERS + 1)) * brevity
        return {name: values[..., index] for index, name in enumerate(NAMES)}


def closest_lengths(corpus: Corpus) -> NDArray[np.int64]:
    """(n,): the length of the reference nearest in length to the candidate; of two as near, the shorter."""
    n = len(corpus)
    lengths = corpus.tokens.lengths
    words, wanted = lengths[corpus.image_of[n:]], lengths[n:]
    bound = int(lengths.max(initial=0)) + 1
    nearest = np.abs(words - wanted) * bound + wanted  # distance first, then length
    starts = np.cumsum(corpus.reference_counts) - corpus.reference_counts
    return np.minimum.reduceat(nearest, starts) % bound if n else wanted
