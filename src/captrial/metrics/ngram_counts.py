"""Captions as flat arrays of word ids, and every n-gram of them as an integer, counted once for all metrics.

N-gram ids are exact, not hashed: an n-gram is the pair (id of its first n-1 words, last word), and equal pairs get
equal ids by sorting. Ids follow the order of the packed pairs, so the sorted pairs of all orders are a trie by levels,
in which any other set of n-grams (document frequencies, sampled captions) is looked up by binary search.

Packed pairs are int64: image x n-gram stays below 2**63 for any corpus that fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TokenArrays:
    """`words[offsets[i]:offsets[i + 1]]` are the word ids of text i; id j means `vocabulary[j]`."""

    words: NDArray[np.int32]  # (tokens,)
    offsets: Ints  # (texts + 1,)
    vocabulary: tuple[str, ...]

    @classmethod
    def of_words(cls, texts: Sequence[Sequence[str]]) -> TokenArrays:
        """Lists of words, such as the nouns of each caption."""
        flat = list(chain.from_iterable(texts))
        index = {word: number for number, word in enumerate(dict.fromkeys(flat))}
        words = np.fromiter(map(index.__getitem__, flat), np.int32, len(flat))
        return cls(words, np.cumsum([0, *map(len, texts)]), tuple(index))

    @classmethod
    def split_at_blanks(cls, texts: Sequence[str]) -> TokenArrays:
        """Words as `text.split(" ")` gives them: an empty text is one empty word (ROUGE-L of the COCO toolkit)."""
        lists = pc.split_pattern(_arrow(texts), " ")
        encoded = lists.flatten().dictionary_encode()
        words = encoded.indices.to_numpy(zero_copy_only=False)
        return cls(words, lists.offsets.to_numpy().astype(np.int64), tuple(encoded.dictionary.to_pylist()))

    @classmethod
    def split(cls, texts: Sequence[str]) -> TokenArrays:
        """Words as `text.split()` gives them: no empty ones, other white space separates too (BLEU and CIDEr there)."""
        return cls.split_at_blanks(texts).resplit(texts)

    def resplit(self, texts: Sequence[str]) -> TokenArrays:
        """From `split_at_blanks` to `split` of the same texts."""
        tokens = self
        if any(len(word.split()) > 1 for word in self.vocabulary):  # PTB joins `1 1/2` by a no-break space
            tokens = TokenArrays.split_at_blanks([" ".join(text.split()) for text in texts])
        return tokens._without_empty_words()

    @property
    def lengths(self) -> Ints:
        """(texts,): words of each text."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        """The number of texts."""
        return len(self.offsets) - 1

    def _without_empty_words(self) -> TokenArrays:
        empty = np.array([not word.strip() for word in self.vocabulary], dtype=bool)
        if not empty.any():
            return self
        kept = ~empty[self.words]
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        return TokenArrays(self.words[kept], offsets, self.vocabulary)


def _arrow(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair, as JSON may carry it
        return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())


ORDERS = 4
Small = NDArray[np.int32]


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: their places and their keys."""

    positions: Ints  # (occurrences,) index of the first word in `TokenArrays.words`
    ids: Ints  # (occurrences,)
    keys: Ints  # (grams,) sorted; id of the prefix * size of the vocabulary + last word


@dataclass(frozen=True)
class Counts:
    """Counts of the n-grams of one order in each text, and what references and candidates share.

    An *entry* is a distinct (text, gram), a *group* a distinct (image, gram); entries of a group are neighbours.
    """

    text: Small  # (entries,)
    gram: Small  # (entries,)
    count: Small  # (entries,)
    group: Small  # (entries,) the group of each entry
    image: Small  # (groups,)
    most: Small  # (groups,) largest count of the gram in one reference of the image
    candidate: Small  # (groups,) its count in the image's candidate
    keys: Ints  # (grams,) as in `Level`
    documents: Ints  # (grams,) images whose references hold the gram: its document frequency


@dataclass(frozen=True)
class Places:
    """Where each word belongs: its image, and there its text (0 the candidate, then the references)."""

    image: Ints  # (tokens,)
    text: Ints  # (tokens,) counted within the image
    first: Ints  # (images,) number of the text that is the image's first reference

    @classmethod
    def of(cls, lengths: Ints, references: Ints) -> Places:
        """From the words of each text (candidates, then references by image) and the references of each image."""
        images = np.arange(len(references))
        starts = np.cumsum(references) - references
        of_reference = np.repeat(images, references)
        text = np.concatenate([0 * images, np.arange(1, len(of_reference) + 1) - starts[of_reference]])
        image = np.concatenate([images, of_reference])
        return cls(np.repeat(image, lengths), np.repeat(text, lengths), len(images) + starts)


def levels(tokens: TokenArrays, orders: int = ORDERS) -> Iterator[Level]:
    """The n-grams of orders 1, 2, ...; at order 1 the ids are the words."""
    size = len(tokens.vocabulary)
    ends = np.repeat(tokens.offsets[1:], tokens.lengths)  # (tokens,) end of the word's text
    words = tokens.words.astype(np.int64)
    level = Level(np.arange(len(words)), words, np.arange(size))
    yield level
    for order in range(2, orders + 1):
        inside = level.positions + order <= ends[level.positions]
        positions = level.positions[inside]
        level = _level(positions, level.ids[inside] * size + words[positions + order - 1])
        yield level


def count(level: Level, places: Places) -> Counts:
    """Count one order: a single sort by (image, gram, text), packed in the bits of one integer, then runs."""
    gram_bits, slot_bits = len(level.keys).bit_length(), int(places.text.max(initial=0)).bit_length()
    keys = places.image[level.positions] << gram_bits | level.ids
    entries, counts = _runs(np.sort(keys << slot_bits | places.text[level.positions]))
    slot = (entries & ((1 << slot_bits) - 1)).astype(np.int32)
    groups, sizes = _runs(entries >> slot_bits)
    image, gram = (groups >> gram_bits).astype(np.int32), (groups & ((1 << gram_bits) - 1)).astype(np.int32)
    group = np.repeat(np.arange(len(groups), dtype=np.int32), sizes)
    own = np.flatnonzero(slot == 0)
    candidate = np.zeros(len(groups), dtype=np.int32)
    candidate[group[own]] = counts[own]
    text = places.first.astype(np.int32)[image][group] + (slot - 1)
    text[own] = image[group[own]]
    small = counts.astype(np.int32)
    in_references: Small = np.where(slot == 0, 0, small)
    most: Small = np.maximum.reduceat(in_references, np.cumsum(sizes) - sizes) if len(groups) else in_references
    documents = np.bincount(gram[most > 0], minlength=len(level.keys))
    return Counts(text, gram[group], small, group, image, most, candidate, level.keys, documents)


def sorted_with_order(keys: Ints) -> tuple[Ints, Ints]:
    """Sorted non-negative `keys` and the positions they came from, equal keys in their order.

    Sorting plain integers is several times faster than `argsort`, so the position rides in the low bits if it fits.
    """
    bits = len(keys).bit_length()
    if len(keys) and int(keys.max()) >> (63 - bits) == 0:
        packed = np.sort((keys << bits) | np.arange(len(keys)))
        return packed >> bits, packed & ((1 << bits) - 1)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def find(keys: Ints, wanted: Ints) -> Ints:
    """Index of each `wanted` in the sorted, distinct `keys`, or -1."""
    if not len(keys):
        return np.full(len(wanted), -1)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, index, -1)


def _level(positions: Ints, pairs: Ints) -> Level:
    ordered, order = sorted_with_order(pairs)
    keys, sizes = _runs(ordered)
    ids = np.empty(len(pairs), dtype=np.int64)
    ids[order] = np.repeat(np.arange(len(keys)), sizes)
    return Level(positions, ids, keys)


def _runs(ordered: Ints) -> tuple[Ints, Ints]:
    """The distinct values of a sorted array and how often each occurs."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    return ordered[starts], np.diff(starts, append=len(ordered))
