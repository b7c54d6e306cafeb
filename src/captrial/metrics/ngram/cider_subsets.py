"""CIDEr of several systems on any choice of the same images, document frequencies being those of the choice.

A competition asks for CIDEr thousands of times, each time on some seventy images with document frequencies of their
own. Here n-grams are counted once for all systems and references; a choice of images is then scored in microseconds,
with the values that `cider` gives for a corpus of just these images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from captrial.kernels import kernel
from captrial.metrics.ngram.cider import SIGMA
from captrial.metrics.ngram_counts import ORDERS, Level, TokenArrays, levels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Order:
    """N-grams of one order: those of text s are `grams[bounds[s]:bounds[s + 1]]`, sorted, with their counts."""

    grams: Ints
    counts: Floats
    bounds: Ints  # (texts + 1,)
    held: Ints  # distinct n-grams of all references of image x: held[held_bounds[x]:held_bounds[x + 1]]
    held_bounds: Ints  # (images + 1,)
    documents: Ints  # (all n-grams of the order,) scratch, zero between calls


class CiderPanel:
    """Systems and references of the same images, ready to be scored on any choice of images."""

    def __init__(
        self, candidates: Sequence[Sequence[str]], references: Sequence[Sequence[str]], damped: bool = True
    ) -> None:
        """`candidates[system][image]` and `references[image]` are tokens joined by blanks; `damped` is CIDEr-D."""
        self._images, self._damped = len(references), damped
        texts = [*chain.from_iterable(candidates), *chain.from_iterable(references)]
        tokens = TokenArrays.split(texts)
        sizes = np.fromiter(map(len, references), np.int64, len(references))
        self._first = len(candidates) * self._images + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        image_of = np.repeat(np.arange(self._images), sizes)
        self._bigrams = np.maximum(tokens.lengths - 1, 0).astype(np.float64)
        text_of = np.repeat(np.arange(len(tokens)), tokens.lengths)
        self._orders = [
            _count(level, text_of, len(tokens), int(self._first[0]), image_of, self._images) for level in levels(tokens)
        ]

    def scores(self, system: int, images: Sequence[int] | Ints) -> Floats:
        """(n,): CIDEr of one system on each of these images, whose references make the document frequencies."""
        chosen = np.asarray(images, np.int64)
        logs = np.log(np.arange(1, len(chosen) + 1, dtype=np.float64)) if len(chosen) else np.zeros(0)
        totals = np.zeros(len(chosen))
        for order in self._orders:
            _add_order(
                order.grams, order.counts, order.bounds, order.held, order.held_bounds, order.documents,
                chosen, system * self._images, self._first, self._bigrams, logs, self._damped, totals,
            )  # fmt: skip
        sizes = self._first[chosen + 1] - self._first[chosen]
        return 10 * totals / ORDERS / sizes


def _count(level: Level, text_of: Ints, texts: int, systems_end: int, image_of: Ints, images: int) -> _Order:
    width = max(len(level.keys), 1)
    entries, counts = np.unique(text_of[level.positions] * width + level.ids, return_counts=True)
    text, gram = np.divmod(entries, width)
    bounds = np.searchsorted(text, np.arange(texts + 1))
    references = text >= systems_end
    held = np.unique(image_of[text[references] - systems_end] * width + gram[references])
    image, held_gram = np.divmod(held, width)
    return _Order(
        gram,
        counts.astype(np.float64),
        bounds,
        held_gram,
        np.searchsorted(image, np.arange(images + 1)),
        np.zeros(width, np.int64),
    )


@kernel()
def _add_order(
    grams: Ints,
    counts: Floats,
    bounds: Ints,
    held: Ints,
    held_bounds: Ints,
    documents: Ints,
    images: Ints,
    first_candidate: int,
    first_reference: Ints,
    bigrams: Floats,
    logs: Floats,
    damped: bool,
    totals: Floats,
) -> None:
    """Add the similarity on n-grams of one order, summed over references, to `totals`."""
    for image in images:
        for index in range(held_bounds[image], held_bounds[image + 1]):
            documents[held[index]] += 1
    for place in range(len(images)):
        image = images[place]
        candidate = first_candidate + image
        own = 0.0
        for index in range(bounds[candidate], bounds[candidate + 1]):
            idf = logs[-1] - logs[max(documents[grams[index]], 1) - 1]
            own += (counts[index] * idf) ** 2
        for reference in range(first_reference[image], first_reference[image + 1]):
            norm, product, at = 0.0, 0.0, bounds[candidate]
            for index in range(bounds[reference], bounds[reference + 1]):
                idf = logs[-1] - logs[max(documents[grams[index]], 1) - 1]
                norm += (counts[index] * idf) ** 2
                while at < bounds[candidate + 1] and grams[at] < grams[index]:
                    at += 1
                if at < bounds[candidate + 1] and grams[at] == grams[index]:
                    shared = min(counts[at], counts[index]) if damped else counts[at]
                    product += shared * counts[index] * idf * idf
            if own > 0 and norm > 0:
                apart = bigrams[candidate] - bigrams[reference]
                penalty = np.exp(-(apart**2) / (2 * SIGMA**2)) if damped else 1.0
                totals[place] += product / np.sqrt(own * norm) * penalty
    for image in images:
        for index in range(held_bounds[image], held_bounds[image + 1]):
            documents[held[index]] = 0
