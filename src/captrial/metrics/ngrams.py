"""Every n-gram of a corpus as an integer, counted once for all metrics.

Ids are exact, not hashed: an n-gram is the pair (id of its first n-1 words, last word), and equal pairs get equal ids
by sorting. Ids follow the order of the packed pairs, so the sorted pairs of all orders are a trie by levels, in which
any other set of n-grams (document frequencies, sampled captions) is looked up by binary search.

Packed pairs are int64: image x n-gram stays below 2**63 for any corpus that fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.sentences import Ints, Sentences

ORDERS = 4
Small = NDArray[np.int32]


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: where they stand, and what they are."""

    positions: Ints  # (occurrences,) index of the first word in `Sentences.words`
    ids: Ints  # (occurrences,)
    keys: Ints  # (grams,) sorted; id of the prefix * size of the vocabulary + last word


@dataclass(frozen=True)
class Counts:
    """How often each n-gram of one order stands in each sentence, and what references and candidates share.

    Entries are sorted by (sentence, gram). The first `candidates` entries belong to candidates (where the number of the
    sentence is that of the image), the others to references. A *group* is a distinct (image, gram) of the references.
    """

    sentence: Small  # (entries,)
    gram: Small  # (entries,)
    count: Small  # (entries,)
    candidates: int
    group: Small  # (reference entries,) the group of each reference entry
    image: Small  # (groups,)
    most: Small  # (groups,) largest count of the gram in one reference of the image
    said: Small  # (groups,) its count in the image's candidate
    keys: Ints  # (grams,) as in `Level`
    documents: Ints  # (grams,) images whose references hold the gram: its document frequency


def levels(sentences: Sentences, orders: int = ORDERS) -> Iterator[Level]:
    """The n-grams of orders 1, 2, ...; at order 1 the ids are the words."""
    size = len(sentences.vocabulary)
    ends = np.repeat(sentences.offsets[1:], sentences.lengths)  # (tokens,) end of the word's sentence
    words = sentences.words.astype(np.int64)
    level = Level(np.arange(len(words)), words, np.arange(size))
    yield level
    for order in range(2, orders + 1):
        inside = level.positions + order <= ends[level.positions]
        positions = level.positions[inside]
        level = _level(positions, level.ids[inside] * size + words[positions + order - 1])
        yield level


def count(level: Level, sentence_of: Ints, image_of: Ints, images: int) -> Counts:
    """Count one order; `sentence_of` (tokens,), `image_of` (sentences,); the first `images` are candidates."""
    grams = max(len(level.keys), 1)
    entries, counts = _runs(np.sort(sentence_of[level.positions] * grams + level.ids))
    sentence, gram = np.divmod(entries, grams)
    split = int(np.searchsorted(sentence, images))
    keys, group, most = _groups(image_of[sentence[split:]] * grams + gram[split:], counts[split:])
    shared = find(keys, entries[:split])
    said = np.zeros(len(keys), dtype=np.int32)
    said[shared[shared >= 0]] = counts[:split][shared >= 0]
    return Counts(
        sentence=sentence.astype(np.int32),
        gram=gram.astype(np.int32),
        count=counts.astype(np.int32),
        candidates=split,
        group=group,
        image=(keys // grams).astype(np.int32),
        most=most.astype(np.int32),
        said=said,
        keys=level.keys,
        documents=np.bincount(keys % grams, minlength=len(level.keys)),
    )


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


def _groups(keys: Ints, counts: Ints) -> tuple[Ints, Small, Ints]:
    """Distinct keys, the number of each key among them, and the largest count of each."""
    ordered, order = sorted_with_order(keys)
    distinct, sizes = _runs(ordered)
    group = np.empty(len(keys), dtype=np.int32)
    group[order] = np.repeat(np.arange(len(distinct)), sizes)
    starts = np.cumsum(sizes) - sizes
    return distinct, group, np.maximum.reduceat(counts[order], starts) if len(starts) else starts


def _level(positions: Ints, pairs: Ints) -> Level:
    ordered, order = sorted_with_order(pairs)
    keys, sizes = _runs(ordered)
    ids = np.empty(len(pairs), dtype=np.int64)
    ids[order] = np.repeat(np.arange(len(keys)), sizes)
    return Level(positions, ids, keys)


def _runs(ordered: Ints) -> tuple[Ints, Ints]:
    """The distinct values of a sorted array and how often each stands there."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    return ordered[starts], np.diff(starts, append=len(ordered))
