"""CIDEr-D of sampled token ids, fast enough to be a reward inside a training loop (SCST).

N-grams of references are counted once; a batch then costs about a millisecond. EOS counts as a word of samples,
references and document frequencies by default: without it a captioner learns to stop at "a" or "in the".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from captrial.errors import InputError
from captrial.kernels import kernel
from captrial.language.vocabulary import EOS, Vocabulary
from captrial.metrics.ngram.cider import SIGMA
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies, TokenReferences, reference_tokens
from captrial.metrics.ngram_counts import ORDERS, Ints, TokenArrays, levels

Floats = NDArray[np.float64]


class Trie(NamedTuple):
    """A table of document frequencies, its n-grams numbered through all orders (words first)."""

    first: Ints  # (grams below the last order,) number of the first n-gram that continues this one
    stop: Ints  # and of the one after the last
    last: Ints  # (grams,) last word; ascending among the continuations of one n-gram
    idf: Floats  # (grams,)
    unseen: float  # idf of an n-gram that is not here


class CountedReferences(NamedTuple):
    """References: their n-grams by number, with counts and norms."""

    first: Ints  # (references + 1,) where each reference's entries begin
    gram: Ints  # (entries,) ascending within a reference
    times: Ints  # (entries,) how often it occurs
    norm: Floats  # (references, 4)
    length: Ints  # (references,)
    of_image: Ints  # (images + 1,) first reference of each image


class CiderReward:
    """CIDEr-D of samples against the references of their images.

    `references[image][reference]` are ids of `vocabulary`; so is the table, or it is refused. With `count_end` EOS is a
    word like others, and the table must have been built so too (as `DocumentFrequencies.of_tokens` does by default).
    """

    def __init__(
        self,
        document_frequencies: DocumentFrequencies,
        references: TokenReferences,
        vocabulary: Vocabulary,
        count_end: bool = True,
    ) -> None:
        document_frequencies.require(vocabulary.fingerprint)
        lonely = [image for image, of_image in enumerate(references) if not len(of_image)]
        if lonely:
            raise InputError(f"image number {lonely[0]} has no reference; a reward needs at least one")
        self.count_end, self.size = count_end, len(vocabulary)
        tokens, image_of = reference_tokens(references, vocabulary, count_end)
        self._trie = _trie(document_frequencies)
        of_image = np.searchsorted(image_of, np.arange(len(references) + 1))
        self._references = _count_references(document_frequencies, tokens, of_image)

    def rewards(self, sampled: ArrayLike, image_index: ArrayLike) -> Floats:
        """(b,): the reward of each row of `sampled` (b, t) token ids; `image_index` (b,) says which image it describes.

        Rows have no BOS. What follows the first EOS is ignored; a row without EOS was cut by length and has none.
        """
        tokens = np.ascontiguousarray(sampled, dtype=np.int64)
        images = np.ascontiguousarray(image_index, dtype=np.int64)
        if tokens.ndim != 2 or images.shape != tokens.shape[:1]:
            raise InputError(f"samples {tokens.shape} and images {images.shape} do not fit; want (b, t) and (b,)")
        ends = tokens == EOS
        lengths = np.where(ends.any(axis=1), ends.argmax(axis=1) + self.count_end, tokens.shape[1])
        self._check(tokens[np.arange(tokens.shape[1]) < lengths[:, None]], self.size, "token id")
        self._check(images, len(self._references.of_image) - 1, "image number")
        result: Floats = _rewards(tokens, lengths, images, self._trie, self._references)
        return result

    @staticmethod
    def _check(values: Ints, bound: int, what: str) -> None:
        """The kernel reads memory at these values: outside is a mistake that must not go on."""
        if len(values) and not (values.min() >= 0 and values.max() < bound):
            raise InputError(f"{what} {values.max() if values.min() >= 0 else values.min()} is not below {bound}")


def _trie(table: DocumentFrequencies) -> Trie:
    size = len(table.words)
    grams = [len(keys) for keys in table.keys]
    begin = np.cumsum([0, *grams])  # number of the first n-gram of each order
    bounds = [
        begin[order + 1] + np.searchsorted(table.keys[order + 1], np.arange(grams[order] + 1) * size)
        for order in range(ORDERS - 1)
    ]
    first, stop = (np.concatenate([part[side] for part in bounds]) for side in (slice(None, -1), slice(1, None)))
    idf = np.concatenate([table.idf(order, np.arange(count)) for order, count in enumerate(grams, 1)])
    return Trie(first, stop, np.concatenate(table.keys) % size, idf, float(np.log(table.images)))


def _count_references(table: DocumentFrequencies, tokens: TokenArrays, of_image: Ints) -> CountedReferences:
    references = len(tokens)
    text_of = np.repeat(np.arange(references), tokens.lengths)
    found = list(levels(tokens))
    known = table.lookup([level.keys for level in found], tokens.vocabulary)
    norm = np.zeros((references, ORDERS))
    entries, offset = [], 0
    for order, level in enumerate(found):
        grams = max(len(level.keys), 1)
        keys, count = np.unique(text_of[level.positions] * grams + level.ids, return_counts=True)
        text, number = keys // grams, known[order][keys % grams]
        norm[:, order] = np.sqrt(np.bincount(text, (count * table.idf(order + 1, number)) ** 2, references))
        held = number >= 0  # an n-gram that the table lacks weighs in the norm, but no sample can be looked up in it
        entries.append(np.stack([text, number + offset, count])[:, held])
        offset += len(table.keys[order])
    text, gram, count = np.concatenate(entries, axis=1)
    order_of = np.lexsort((gram, text))
    first = np.searchsorted(text[order_of], np.arange(references + 1))
    return CountedReferences(first, gram[order_of], count[order_of], norm, tokens.lengths, of_image)


@kernel()
def _find(values: Any, start: int, stop: int, wanted: int) -> int:
    """Index of `wanted` in the ascending values[start:stop], or -1."""
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < wanted:
            start = middle + 1
        elif values[middle] > wanted:
            stop = middle
        else:
            return middle
    return -1


@kernel()
def _same(words: Any, i: int, j: int, order: int) -> bool:
    for k in range(order):  # noqa: SIM110 (compiled: no generators)
        if words[i + k] != words[j + k]:
            return False
    return True


@kernel()
def _count_distinct(words: Any, places: int, order: int, counts: Any) -> None:
    """counts[i]: how often the n-gram at place i occurs, at its first place; 0 at later ones."""
    for i in range(places):
        counts[i] = 1
        for j in range(i):
            if counts[j] and _same(words, i, j, order):
                counts[j] += 1
                counts[i] = 0
                break


@kernel()
def _number(words: Any, places: int, order: int, trie: Trie, numbers: Any) -> None:
    """Go one level down the trie: numbers[i] of order - 1 becomes that of `order`, -1 where the n-gram is unknown."""
    for i in range(places):
        if order == 1:
            numbers[i] = words[i]
        elif numbers[i] >= 0:
            numbers[i] = _find(trie.last, trie.first[numbers[i]], trie.stop[numbers[i]], words[i + order - 1])


@kernel()
def _product(
    counts: Any, numbers: Any, places: int, reference: int, trie: Trie, references: CountedReferences
) -> float:
    """Dot product of the reference's tf-idf vector with the sample's, clipped at the reference's."""
    product = 0.0
    for i in range(places):
        if counts[i] and numbers[i] >= 0:
            entry = _find(references.gram, references.first[reference], references.first[reference + 1], numbers[i])
            if entry >= 0:
                held = references.times[entry]
                product += min(counts[i], held) * held * trie.idf[numbers[i]] ** 2
    return product


@kernel()
def _norm(counts: Any, numbers: Any, places: int, trie: Trie) -> float:
    total = 0.0
    for i in range(places):
        if counts[i]:
            total += (counts[i] * (trie.idf[numbers[i]] if numbers[i] >= 0 else trie.unseen)) ** 2
    return float(np.sqrt(total))


@kernel()
def _rewards(tokens: Any, lengths: Any, images: Any, trie: Trie, references: CountedReferences) -> Any:
    rewards = np.zeros(len(tokens))
    counts = np.zeros(tokens.shape[1] + 1, dtype=np.int64)
    numbers = np.zeros(tokens.shape[1] + 1, dtype=np.int64)
    for row in range(len(tokens)):
        length, start, stop = lengths[row], references.of_image[images[row]], references.of_image[images[row] + 1]
        for order in range(1, ORDERS + 1):
            places = length - order + 1
            _count_distinct(tokens[row], places, order, counts)
            _number(tokens[row], places, order, trie, numbers)
            norm = _norm(counts, numbers, places, trie)
            for reference in range(start, stop):
                scale = norm * references.norm[reference, order - 1]
                if scale > 0:
                    apart = max(length, 1) - max(references.length[reference], 1)  # in bigrams
                    damping = np.exp(-(apart**2) / (2 * SIGMA**2))
                    product = _product(counts, numbers, places, reference, trie, references)
                    rewards[row] += product / scale * damping
        rewards[row] *= 10.0 / ORDERS / (stop - start)
    return rewards
