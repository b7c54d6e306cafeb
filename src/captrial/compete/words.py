"""A table from words to small integers, filled straight from the bytes of an Arrow string array.

Python objects are made only for words never seen before, so a million captions cost tens of milliseconds rather than
seconds. Words are compared byte by byte: two words share a number exactly when they are equal, whatever their hashes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_OFFSET_BASIS = np.uint64(14695981039346656037)  # FNV-1a, 64 bits
_PRIME = np.uint64(1099511628211)
_FOLD = np.uint64(32)
_BLANK = np.uint8(0x20)
_DOT = np.uint8(0x2E)
_LETTER = np.zeros(256, np.bool_)
_LETTER[ord("a") : ord("z") + 1] = _LETTER[ord("A") : ord("Z") + 1] = True


@dataclass(frozen=True, slots=True)
class WordRows:
    """Rows of word numbers: row r is `words[offsets[r] : offsets[r + 1]]`; `odd[r]` marks rows left empty."""

    words: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (rows + 1,)
    odd: NDArray[np.bool_]  # (rows,)


class WordTable:
    """Numbers for blank-separated words, in order of first appearance."""

    def __init__(self, plain_only: bool) -> None:
        """With `plain_only`, rows that hold anything but ASCII letters, blanks and lone dots are marked odd."""
        self.plain_only = plain_only
        self._allocate(1 << 14)

    def __len__(self) -> int:
        return int(self._used[0])

    def word(self, number: int) -> str:
        """The word behind a number."""
        start, stop = self._bounds[number : number + 2]
        return self._bytes[start:stop].tobytes().decode()

    def number_rows(self, texts: pa.Array) -> WordRows:
        """Split every text at blanks and number its words; unseen words get the next free numbers."""
        data, ends = string_buffers(texts)
        rows = len(ends) - 1
        words = np.empty((int(ends[-1] - ends[0]) + rows) // 2 + 1, np.int32)  # a word and its blank take two bytes
        offsets, odd = np.zeros(rows + 1, np.int64), np.zeros(rows, np.bool_)
        row = 0
        while row < rows:  # the scan stops where the table is full
            row = _scan(
                data, ends, row, self.plain_only, self._slots, self._hashes, self._bounds, self._bytes, self._used,
                words, offsets, odd,
            )  # fmt: skip
            if row < rows:
                self._grow(int(ends[row + 1] - ends[row]))
        return WordRows(words[: offsets[-1]], offsets, odd)

    def _allocate(self, capacity: int) -> None:
        self._slots = np.zeros(4 << capacity.bit_length(), np.int32)  # number + 1; 0 is free; a power of two
        self._hashes = np.empty(capacity, np.uint64)
        self._bounds = np.zeros(capacity + 1, np.int64)
        self._bytes = np.empty(8 * capacity, np.uint8)
        self._used = np.zeros(1, np.int64)  # words in the table

    def _grow(self, room: int) -> None:
        """Double the table and leave at least `room` bytes for one more row."""
        hashes, bounds, data, count = self._hashes, self._bounds, self._bytes, len(self)
        self._allocate(max(2 * len(hashes), (len(data) + room) // 8 + 1))
        self._hashes[:count], self._bounds[: count + 1] = hashes[:count], bounds[: count + 1]
        self._bytes[: len(data)] = data
        self._used[0] = count
        _rehash(self._hashes, count, self._slots)


def string_buffers(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The UTF-8 bytes of an Arrow string array and where its rows begin: `(bytes, (rows + 1,))`. Null is empty."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    if texts.null_count:
        texts = pc.fill_null(texts, "")
    if len(texts) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), ends.astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _scan(
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    row: int,
    plain_only: bool,
    slots: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    known: NDArray[np.uint8],
    used: NDArray[np.int64],
    words: NDArray[np.int32],
    offsets: NDArray[np.int64],
    odd: NDArray[np.bool_],
) -> int:
    """Number the words of rows `row`, `row + 1`, ...; return the first row that did not fit, or the number of rows."""
    while row < len(ends) - 1:
        at, stop, out = ends[row], ends[row + 1], offsets[row]
        if used[0] + (stop - at + 1) // 2 >= len(hashes) or bounds[used[0]] + stop - at > len(known):
            return row
        while at < stop:
            if data[at] == _BLANK:
                at += 1
                continue
            start, value, plain = at, _OFFSET_BASIS, True
            while at < stop and data[at] != _BLANK:
                value = (value ^ np.uint64(data[at])) * _PRIME
                plain &= _LETTER[data[at]]
                at += 1
            if plain_only and not plain and not (at - start == 1 and data[start] == _DOT):
                odd[row], out = True, offsets[row]
                break
            words[out] = _number(data, start, at, value, slots, hashes, bounds, known, used)
            out += 1
        row += 1
        offsets[row] = out
    return row


@numba.njit(cache=True, nogil=True, inline="always")
def _number(
    data: NDArray[np.uint8],
    start: int,
    stop: int,
    value: np.uint64,
    slots: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    known: NDArray[np.uint8],
    used: NDArray[np.int64],
) -> int:
    """The number of the word `data[start:stop]` with this hash; a new word is entered."""
    slot = np.int64(value ^ (value >> _FOLD)) & (len(slots) - 1)
    while slots[slot]:
        number = int(slots[slot]) - 1
        if hashes[number] == value and bounds[number + 1] - bounds[number] == stop - start:
            first, same = bounds[number], True
            for index in range(stop - start):
                same &= known[first + index] == data[start + index]
            if same:
                return number
        slot = (slot + 1) & (len(slots) - 1)
    number, first = int(used[0]), int(bounds[used[0]])
    for index in range(stop - start):  # a slice would cost twice the whole look-up, in reference counts
        known[first + index] = data[start + index]
    slots[slot], hashes[number], bounds[number + 1] = number + 1, value, first + stop - start
    used[0] += 1
    return number


@numba.njit(cache=True, nogil=True)
def _rehash(hashes: NDArray[np.uint64], count: int, slots: NDArray[np.int32]) -> None:
    for number in range(count):
        value = hashes[number]
        slot = np.int64(value ^ (value >> _FOLD)) & (len(slots) - 1)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = number + 1
