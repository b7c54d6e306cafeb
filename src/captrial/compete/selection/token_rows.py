"""Captions as rows of token numbers, for millions of captions at a time.

Tokens are always those of the tokeniser. A word of ASCII letters between blanks is tokenised the same in every caption,
so it is given to the tokeniser once and cached (`WordTable`); a caption with anything else in it (punctuation, digits,
other scripts, very long words) is tokenised whole.

`WordTable` numbers plain words straight from the bytes of an Arrow string array. A plain word is at most 16 ASCII
letters, or a lone dot: it fits two 64-bit integers, so that comparing words is comparing numbers, exactly. Python
objects are created only for new words; a million captions take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from captrial.kernels import kernel
from captrial.language import tokenize_all

_LONGEST = 16
_BLANK, _DOT = 0x20, 0x2E
_LETTER = np.zeros(256, np.bool_)
_LETTER[ord("a") : ord("z") + 1] = _LETTER[ord("A") : ord("Z") + 1] = True
_BYTE, _LAST_SHIFT, _SPREAD_SHIFT = np.uint64(8), np.uint64(63), np.uint64(32)
_SPREAD, _OTHER_SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WordRows:
    """Rows of word numbers: row r is `words[offsets[r] : offsets[r + 1]]`; `irregular` marks the others."""

    words: NDArray[np.int32]
    offsets: Ints  # (rows + 1,)
    irregular: NDArray[np.bool_]  # (rows,)


class WordTable:
    """Numbers for plain words, in order of first appearance."""

    def __init__(self) -> None:
        self._allocate(1 << 12)

    def __len__(self) -> int:
        return int(self._used[0])

    def word(self, number: int) -> str:
        """The word behind a number."""
        return bytes(self._keys[number]).rstrip(b"\0").decode()

    def number_rows(self, texts: pa.Array) -> WordRows:
        """Split every text at blanks and number its words; unseen words get the next free numbers."""
        data, ends = string_buffers(texts)
        rows = len(ends) - 1
        words = np.empty((int(ends[-1] - ends[0]) + rows) // 2 + 1, np.int32)  # a word and its blank take two bytes
        offsets, irregular = np.zeros(rows + 1, np.int64), np.zeros(rows, np.bool_)
        row = 0
        while row < rows:  # the scan stops where the table has become too full
            row = _scan(data, ends, row, self._slots, self._keys, self._used, words, offsets, irregular)
            if row < rows:
                self._grow(int(ends[row + 1] - ends[row]))
        return WordRows(words[: offsets[-1]], offsets, irregular)

    def _allocate(self, capacity: int) -> None:
        self._slots = np.zeros(4 << capacity.bit_length(), np.int32)  # number + 1; 0 is free; a power of two
        self._keys = np.zeros((capacity, 2), np.uint64)
        self._used = np.zeros(1, np.int64)

    def _grow(self, size: int) -> None:
        """Double the table, and reserve space for all words that a row of `size` bytes may have."""
        keys, count = self._keys, len(self)
        self._allocate(2 * len(keys) + size)
        self._keys[:count] = keys[:count]
        self._used[0] = count
        _rehash(self._keys, count, self._slots)


def string_buffers(texts: pa.Array) -> tuple[NDArray[np.uint8], Ints]:
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


@kernel()
def _scan(
    data: NDArray[np.uint8],
    ends: Ints,
    row: int,
    slots: NDArray[np.int32],
    keys: NDArray[np.uint64],
    used: Ints,
    words: NDArray[np.int32],
    offsets: Ints,
    irregular: NDArray[np.bool_],
) -> int:
    """Number the words of rows `row`, `row + 1`, ...; return the first row that did not fit, or the number of rows."""
    out = offsets[row]
    while row < len(ends) - 1:
        at, stop = ends[row], ends[row + 1]
        if used[0] + (stop - at + 1) // 2 >= len(keys):
            return row
        while at < stop:
            if data[at] == _BLANK:
                at += 1
                continue
            start, low, high, shift, plain = at, np.uint64(0), np.uint64(0), np.uint64(0), True
            while at < stop and data[at] != _BLANK:
                if at - start < 8:
                    low |= np.uint64(data[at]) << shift
                else:
                    high |= np.uint64(data[at]) << shift
                shift = (shift + _BYTE) & _LAST_SHIFT
                plain &= _LETTER[data[at]]
                at += 1
            if at - start > _LONGEST or not (plain or (at - start == 1 and data[start] == _DOT)):
                irregular[row], out = True, offsets[row]
                break
            slot = _slot(low, high, slots, keys)
            if slots[slot] == 0:
                keys[used[0], 0], keys[used[0], 1] = low, high
                used[0] += 1
                slots[slot] = used[0]
            words[out] = slots[slot] - 1
            out += 1
        row += 1
        offsets[row] = out
    return row


@kernel(inline="always")
def _slot(low: np.uint64, high: np.uint64, slots: NDArray[np.int32], keys: NDArray[np.uint64]) -> np.int64:
    """Where a word is in the table, or the free slot where it belongs."""
    mixed = (low ^ (high * _OTHER_SPREAD)) * _SPREAD
    slot = np.int64((mixed >> _SPREAD_SHIFT) & np.uint64(len(slots) - 1))
    while slots[slot] and (keys[slots[slot] - 1, 0] != low or keys[slots[slot] - 1, 1] != high):
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@kernel()
def _rehash(keys: NDArray[np.uint64], count: int, slots: NDArray[np.int32]) -> None:
    for number in range(count):
        slots[_slot(keys[number, 0], keys[number, 1], slots, keys)] = number + 1


Tokenizer = Callable[[Sequence[str]], list[str]]  # texts -> their tokens, joined by blanks

_CACHE_LIMIT = 1 << 21  # words; keeps the memory of an endless stream bounded


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Captions in token numbers: caption r is `tokens[offsets[r] : offsets[r + 1]]`.

    Equal numbers mean equal tokens within one `TokenRows`, never between two.
    """

    tokens: NDArray[np.int32]
    offsets: Ints  # (captions + 1,)

    def __len__(self) -> int:
        return len(self.offsets) - 1


class TokenEncoder:
    """Turns Arrow string arrays into token numbers; words are cached between calls. One encoder a thread."""

    def __init__(self, tokenize: Tokenizer | None = None) -> None:
        """`tokenize` takes texts and returns their tokens joined by blanks; by default the PTB tokeniser."""
        self._tokenize = tokenize or tokenize_all
        self._clear()

    def encode(self, captions: pa.Array | Sequence[str]) -> TokenRows:
        """Token numbers of every caption, in order."""
        texts = captions if isinstance(captions, pa.Array | pa.ChunkedArray) else pa.array(captions, pa.string())
        if len(self._words) + len(self._tokens) > _CACHE_LIMIT:
            self._clear()
        plain = self._words.number_rows(texts)
        self._learn_words()
        whole, whole_offsets = self._number(self._whole(texts, plain.irregular))
        counts = np.diff(self._bounds)[plain.words]
        tokens = np.empty(int(counts.sum()) + len(whole), np.int32)
        offsets = np.zeros(len(plain.irregular) + 1, np.int64)
        _assemble(
            plain.words,
            plain.offsets,
            plain.irregular,
            self._spelled,
            self._bounds,
            whole,
            whole_offsets,
            tokens,
            offsets,
        )
        return TokenRows(tokens, offsets)

    def vocabulary(self) -> list[str]:
        """The tokens behind the numbers of the last `encode`."""
        return list(self._tokens)

    def _clear(self) -> None:
        self._words = WordTable()
        self._tokens: dict[str, int] = {}
        self._spelled = np.empty(0, np.int32)  # token numbers of word w: _spelled[_bounds[w] : _bounds[w + 1]]
        self._bounds = np.zeros(1, np.int64)

    def _learn_words(self) -> None:
        """Tokenise the words that are new (`cannot` is two tokens, a lone dot none)."""
        fresh = [self._words.word(number) for number in range(len(self._bounds) - 1, len(self._words))]
        if fresh:
            tokens, offsets = self._number(self._tokenize(fresh))
            self._spelled = np.concatenate([self._spelled, tokens])
            self._bounds = np.concatenate([self._bounds, self._bounds[-1] + offsets[1:]])

    def _whole(self, texts: pa.Array, irregular: NDArray[np.bool_]) -> list[str]:
        chosen = np.flatnonzero(irregular)
        captions = [text or "" for text in texts.take(pa.array(chosen)).to_pylist()] if len(chosen) else []
        return self._tokenize(captions) if captions else []

    def _number(self, tokenized: list[str]) -> tuple[NDArray[np.int32], Ints]:
        """Numbers of blank-separated tokens and where each text begins; every distinct token is looked up once."""
        lists = pc.split_pattern(pa.array(tokenized, pa.string()), " ")
        encoded = lists.values.dictionary_encode()
        known = self._tokens
        numbers = np.array([known.setdefault(word, len(known)) for word in encoded.dictionary.to_pylist()], np.int32)
        flat = numbers[encoded.indices.to_numpy()] if len(numbers) else np.empty(0, np.int32)
        real = flat != known.get("", -1)  # an empty text is one empty word
        offsets = np.concatenate([[0], np.cumsum(real)])[lists.offsets.to_numpy()]
        return flat[real], offsets.astype(np.int64)


@kernel()
def _assemble(
    words: NDArray[np.int32],
    word_offsets: Ints,
    irregular: NDArray[np.bool_],
    spelled: NDArray[np.int32],
    bounds: Ints,
    whole: NDArray[np.int32],
    whole_offsets: Ints,
    tokens: NDArray[np.int32],
    offsets: Ints,
) -> None:
    """Spell out plain rows word by word and put the irregular rows, tokenised whole, between them."""
    out, next_irregular = 0, 0
    for row in range(len(irregular)):
        if irregular[row]:
            for index in range(whole_offsets[next_irregular], whole_offsets[next_irregular + 1]):
                tokens[out] = whole[index]
                out += 1
            next_irregular += 1
        else:
            for index in range(word_offsets[row], word_offsets[row + 1]):
                for part in range(bounds[words[index]], bounds[words[index] + 1]):
                    tokens[out] = spelled[part]
                    out += 1
        offsets[row + 1] = out
