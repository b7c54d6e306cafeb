"""NGSM, the n-gram similarity of two captions (Wan 2022 Eqs. 1-5), for every pair of models on a block of images.

`NGSM_n = Cl_n / (U_n(s1) + U_n(s2) - Cl_n)` is a Jaccard index of the two multisets of n-grams; `S` is the geometric
mean over n = 1..4. Inside one image every distinct n-gram gets a bit, its second occurrence in a caption another one,
so a caption is a bit mask and `Cl_n` is the number of bits two masks share: exact, and a few instructions a pair.

Similarities are compared as integers, in units of 1e-12: rounding then decides nothing, as equal fractions always give
equal integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captrial.compete.selection.token_rows import TokenRows
from captrial.kernels import kernel

UNITS = 1e12  # similarities are rounded to 12 decimals
ANYTHING = np.iinfo(np.int64).max  # a limit that lets every key pass
KEY = 5  # S, NGSM_1, NGSM_2, NGSM_3, NGSM_4

_ONE = np.uint64(1)
_REPEAT = np.uint64(1 << 63)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class PairwiseSimilarity(NamedTuple):
    """S and the four NGSM_n it is made of; every one is in [0, 1] and 1 means the same n-grams."""

    s: float
    n1: float
    n2: float
    n3: float
    n4: float


@dataclass(frozen=True, slots=True)
class CaptionBlock:
    """The captions of a block of images, to be compared pair by pair."""

    captions: TokenRows  # the first model's captions of all images, then the second's, and so on
    models: int
    pairs: NDArray[np.int32]  # (p, 2) model indices
    given: NDArray[np.int64] | None = None  # (images, p) another similarity that replaces S, units of 1e-12

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.captions) // self.models


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of captions that passed the limits: `keys[r]` belongs to pair `pairs[r]` on image `rows[r]`."""

    pairs: NDArray[np.int32]
    rows: NDArray[np.int32]
    keys: NDArray[np.int64]  # (matches, KEY), units of 1e-12


def ngsm(first: Sequence[str], second: Sequence[str]) -> PairwiseSimilarity:
    """NGSM of two captions given as tokens.

    >>> ngsm("a dog on a bed".split(), "a dog on a sofa".split()).n1
    0.666666666667
    """
    numbers: dict[str, int] = {}
    tokens = np.array([numbers.setdefault(token, len(numbers)) for token in [*first, *second]], np.int32)
    captions = TokenRows(tokens, np.array([0, len(first), len(first) + len(second)], np.int64))
    found = compare(CaptionBlock(captions, 2, np.array([[0, 1]], np.int32)))
    return PairwiseSimilarity(*(found.keys[0] / UNITS).tolist())


def compare(
    block: CaptionBlock, limits: NDArray[np.int64] | None = None, start: int = 0, stop: int | None = None
) -> Matches:
    """Keys of all pairs on images `start..stop` that do not exceed the pair's limit.

    `limits` (p, KEY) are compared lexicographically; without them every pair passes.
    """
    captions, pairs, images = block.captions, block.pairs, block.images
    tokens = _dense(captions.tokens)
    stop = images if stop is None else stop
    limits = np.full((len(pairs), KEY), ANYTHING) if limits is None else limits
    given = np.empty((0, 0), np.int64) if block.given is None else block.given
    # Until limits exist everything passes, afterwards next to nothing: start small enough and grow.
    capacity = max((stop - start) * len(pairs) if (limits[:, 0] == ANYTHING).any() else 4096, len(pairs))
    found: list[Matches] = []
    while start < stop or not found:
        matched, rows = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        keys = np.empty((capacity, KEY), np.int64)
        count, start = _compare(
            tokens, captions.offsets, block.models, images, pairs, limits, given, start, stop, matched, rows, keys
        )
        found.append(Matches(matched[:count], rows[:count], keys[:count]))
    return found[0] if len(found) == 1 else _joined(found)


def _dense(tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same tokens numbered without large gaps: the kernel has an array with a place for every number."""
    if not len(tokens) or int(tokens.max()) < 4 * len(tokens) + 4096:
        return tokens
    return np.unique(tokens, return_inverse=True)[1].astype(np.int32)


def _joined(found: list[Matches]) -> Matches:
    return Matches(
        np.concatenate([part.pairs for part in found]),
        np.concatenate([part.rows for part in found]),
        np.concatenate([part.keys for part in found]),
    )


@kernel(inline="always")
def _bits(value: np.uint64) -> np.uint64:
    """Number of set bits; the compiler knows this idiom and makes it one instruction."""
    value = value - ((value >> np.uint64(1)) & np.uint64(0x5555555555555555))
    value = (value & np.uint64(0x3333333333333333)) + ((value >> np.uint64(2)) & np.uint64(0x3333333333333333))
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (value * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel()
def _compare(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    models: int,
    images: int,
    pairs: NDArray[np.int32],
    limits: NDArray[np.int64],
    given: NDArray[np.int64],
    start: int,
    stop: int,
    matched: NDArray[np.int32],
    rows: NDArray[np.int32],
    keys: NDArray[np.int64],
) -> tuple[int, int]:
    """Fill the three outputs; return how many matches there are and the first image that was not compared."""
    most = _most_tokens(offsets, models, images, start, stop)
    size = 4
    while size < 4 * most:
        size *= 2
    table = np.empty(size, np.uint64)  # distinct n-grams of one image, by open addressing
    stamps = np.zeros(size, np.int64)  # a slot counts only if it carries the current stamp: nothing is ever cleared
    elements = np.empty(size, np.int32)
    vocabulary = tokens.max() + 1 if len(tokens) else 1
    word_stamps, word_elements = np.zeros(vocabulary, np.int64), np.empty(vocabulary, np.int32)
    grams = np.empty(most + 1, np.int32)  # the local number of the n-gram that starts at each token
    words = np.empty(most + 1, np.int32)  # the same for n = 1
    owners = np.empty(most + 1, np.int32)  # the last caption that an n-gram was seen in, and how often there
    repeats = np.empty(most + 1, np.int32)
    masks = np.zeros((models, most // 64 + 1), np.uint64)
    lengths = np.empty(models, np.int64)
    shared = np.empty((len(pairs), 4), np.int64)  # Cl_n
    count, wanted = 0, 0
    for image in range(start, stop):
        if count + len(pairs) > len(matched):
            return count, image
        for model in range(models):
            caption = model * images + image
            lengths[model] = offsets[caption + 1] - offsets[caption]
        for n in range(1, 5):
            width = _mark(
                tokens, offsets, lengths, models, images, image, n, image * 4 + n, table, stamps, elements,
                word_stamps, word_elements, grams, words, owners, repeats, masks,
            )  # fmt: skip
            _count_shared(pairs, masks, width, shared, n)
            if n == 1:
                wanted = _passing(lengths, image, pairs, limits, given, shared)
            if not wanted:
                break
        if not wanted:
            continue
        for pair in range(len(pairs)):
            _fill_key(lengths[pairs[pair, 0]], lengths[pairs[pair, 1]], shared, pair, keys, count)
            if len(given):
                keys[count, 0] = given[image, pair]
            if _within(keys, count, limits, pair):
                matched[count], rows[count] = pair, image
                count += 1
    return count, stop


@kernel(inline="always")
def _count_shared(
    pairs: NDArray[np.int32], masks: NDArray[np.uint64], width: int, shared: NDArray[np.int64], n: int
) -> None:
    """Cl_n of every pair: the number of bits that two masks share."""
    for pair in range(len(pairs)):
        common = np.int64(0)
        for word in range(width):
            common += np.int64(_bits(masks[pairs[pair, 0], word] & masks[pairs[pair, 1], word]))
        shared[pair, n - 1] = common


@kernel()
def _most_tokens(offsets: NDArray[np.int64], models: int, images: int, start: int, stop: int) -> int:
    """The largest number of tokens that the captions of one image have together."""
    most = 0
    for image in range(start, stop):
        total = 0
        for model in range(models):
            caption = model * images + image
            total += offsets[caption + 1] - offsets[caption]
        most = max(most, total)
    return most


@kernel()
def _mark(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    models: int,
    images: int,
    image: int,
    n: int,
    stamp: int,
    table: NDArray[np.uint64],
    stamps: NDArray[np.int64],
    elements: NDArray[np.int32],
    word_stamps: NDArray[np.int64],
    word_elements: NDArray[np.int32],
    grams: NDArray[np.int32],
    words: NDArray[np.int32],
    owners: NDArray[np.int32],
    repeats: NDArray[np.int32],
    masks: NDArray[np.uint64],
) -> int:
    """Set the bits of every caption's n-grams; return the width of the masks in 64-bit words.

    A word is named by its token number. A longer n-gram is named by the local number of its first n - 1 tokens (left
    in `grams` by the call for n - 1) and the local number of its last: exact for any vocabulary.
    """
    known, base = 0, 0
    for model in range(models):
        for word in range(masks.shape[1]):
            masks[model, word] = np.uint64(0)
        first = offsets[model * images + image]
        for index in range(lengths[model] - n + 1):
            if n == 1:
                token = tokens[first + index]
                if word_stamps[token] != stamp:
                    word_stamps[token], word_elements[token], owners[known] = stamp, known, -1
                    known += 1
                gram = word_elements[token]
                words[base + index] = gram
            else:
                name = (np.uint64(grams[base + index]) << _HALF) | np.uint64(words[base + index + n - 1])
                slot = _slot(name, stamp, table, stamps)
                if stamps[slot] != stamp:
                    table[slot], stamps[slot], elements[slot], owners[known] = name, stamp, known, -1
                    known += 1
                gram = elements[slot]
            grams[base + index] = gram
            if owners[gram] != model:
                owners[gram], repeats[gram] = model, 0
            else:  # the second, third, ... occurrence in this caption is an element of its own
                repeats[gram] += 1
                name = _REPEAT | (np.uint64(gram) << _HALF) | np.uint64(repeats[gram])
                slot = _slot(name, stamp, table, stamps)
                if stamps[slot] != stamp:
                    table[slot], stamps[slot], elements[slot] = name, stamp, known
                    known += 1
                gram = elements[slot]
            masks[model, gram >> 6] |= _ONE << np.uint64(gram & 63)
        base += lengths[model]
    return (known + 63) >> 6


@kernel(inline="always")
def _slot(name: np.uint64, stamp: int, table: NDArray[np.uint64], stamps: NDArray[np.int64]) -> np.int64:
    """Where `name` is in the table, or the free slot where it belongs."""
    mixed = name * _SPREAD
    slot = np.int64((mixed ^ (mixed >> _HALF)) & np.uint64(len(table) - 1))
    while stamps[slot] == stamp and table[slot] != name:
        slot = (slot + 1) & (len(table) - 1)
    return slot


@kernel()
def _passing(
    lengths: NDArray[np.int64],
    image: int,
    pairs: NDArray[np.int32],
    limits: NDArray[np.int64],
    given: NDArray[np.int64],
    shared: NDArray[np.int64],
) -> int:
    """How many pairs can still pass, knowing NGSM_1 only (or the given similarity).

    Where a pair's limit has S = 0, as it soon has, no caption pair with a larger NGSM_1 can pass, whatever its S.
    """
    passing = 0
    for pair in range(len(pairs)):
        if len(given):
            passing += given[image, pair] <= limits[pair, 0]
        elif limits[pair, 0] > 0:
            passing += 1
        else:
            total = _total(lengths[pairs[pair, 0]], lengths[pairs[pair, 1]], 1)
            passing += _ratio(total, shared[pair, 0]) <= limits[pair, 1]
    return passing


@kernel(inline="always")
def _total(first: int, second: int, n: int) -> int:
    """U_n of both captions together."""
    return max(first - n + 1, 0) + max(second - n + 1, 0)


@kernel(inline="always")
def _ratio(total: int, shared: int) -> np.int64:
    """Eq. 1, rounded; 1 where neither caption has an n-gram."""
    return np.int64(np.rint(UNITS * (shared / (total - shared)))) if total else np.int64(UNITS)


@kernel()
def _fill_key(first: int, second: int, shared: NDArray[np.int64], pair: int, keys: NDArray[np.int64], row: int) -> None:
    """S and NGSM_1..4. The product of fractions is one fraction, so that equal products are equal numbers."""
    top, bottom = 1.0, 1.0
    for n in range(1, 5):
        total, common = _total(first, second, n), shared[pair, n - 1]
        keys[row, n] = _ratio(total, common)
        if total:
            top *= common
            bottom *= total - common
    keys[row, 0] = np.int64(np.rint(UNITS * np.sqrt(np.sqrt(top / bottom))))  # Eq. 4, n = 4


@kernel()
def _within(keys: NDArray[np.int64], row: int, limits: NDArray[np.int64], pair: int) -> bool:
    for index in range(keys.shape[1]):
        if keys[row, index] != limits[pair, index]:
            return bool(keys[row, index] < limits[pair, index])
    return True
