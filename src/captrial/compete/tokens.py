"""Captions as rows of token numbers, for millions of captions at a time.

The tokeniser decides what a token is, always. A word of ASCII letters between blanks is tokenised the same in every
sentence, so it is given to the tokeniser once and remembered; a caption with anything else in it (punctuation, digits,
other scripts, very long words) goes to the tokeniser whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from captrial.compete.words import WordTable
from captrial.language import tokenize_all

Tokenizer = Callable[[Sequence[str]], list[str]]  # texts -> their tokens, joined by blanks
Ints = NDArray[np.int64]

_FORGET_AFTER = 1 << 21  # words; keeps the memory of an endless stream bounded


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
    """Turns Arrow string arrays into token numbers; remembers words between calls. One encoder a thread."""

    def __init__(self, tokenize: Tokenizer | None = None) -> None:
        """`tokenize` takes texts and returns their tokens joined by blanks; by default the PTB tokeniser."""
        self._tokenize = tokenize or tokenize_all
        self._forget()

    def encode(self, captions: pa.Array | Sequence[str]) -> TokenRows:
        """Token numbers of every caption, in order."""
        texts = captions if isinstance(captions, pa.Array | pa.ChunkedArray) else pa.array(captions, pa.string())
        if len(self._words) + len(self._tokens) > _FORGET_AFTER:
            self._forget()
        plain = self._words.number_rows(texts)
        self._learn_words()
        whole, whole_offsets = self._number(self._whole(texts, plain.odd))
        counts = np.diff(self._bounds)[plain.words]
        tokens = np.empty(int(counts.sum()) + len(whole), np.int32)
        offsets = np.zeros(len(plain.odd) + 1, np.int64)
        _assemble(
            plain.words, plain.offsets, plain.odd, self._spelled, self._bounds, whole, whole_offsets, tokens, offsets
        )
        return TokenRows(tokens, offsets)

    def vocabulary(self) -> list[str]:
        """The tokens behind the numbers of the last `encode`."""
        return list(self._tokens)

    def _forget(self) -> None:
        self._words = WordTable()
        self._tokens: dict[str, int] = {}
        self._spelled = np.empty(0, np.int32)  # token numbers of word w: _spelled[_bounds[w] : _bounds[w + 1]]
        self._bounds = np.zeros(1, np.int64)

    def _learn_words(self) -> None:
        """Ask the tokeniser about the words it has not seen (`cannot` is two tokens, a lone dot none)."""
        fresh = [self._words.word(number) for number in range(len(self._bounds) - 1, len(self._words))]
        if fresh:
            tokens, offsets = self._number(self._tokenize(fresh))
            self._spelled = np.concatenate([self._spelled, tokens])
            self._bounds = np.concatenate([self._bounds, self._bounds[-1] + offsets[1:]])

    def _whole(self, texts: pa.Array, odd: NDArray[np.bool_]) -> list[str]:
        chosen = np.flatnonzero(odd)
        sentences = [text or "" for text in texts.take(pa.array(chosen)).to_pylist()] if len(chosen) else []
        return self._tokenize(sentences) if sentences else []

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


@numba.njit(cache=True, nogil=True)
def _assemble(
    words: NDArray[np.int32],
    word_offsets: Ints,
    odd: NDArray[np.bool_],
    spelled: NDArray[np.int32],
    bounds: Ints,
    whole: NDArray[np.int32],
    whole_offsets: Ints,
    tokens: NDArray[np.int32],
    offsets: Ints,
) -> None:
    """Spell out plain rows word by word and put the odd rows, tokenised whole, between them."""
    out, next_odd = 0, 0
    for row in range(len(odd)):
        if odd[row]:
            for index in range(whole_offsets[next_odd], whole_offsets[next_odd + 1]):
                tokens[out] = whole[index]
                out += 1
            next_odd += 1
        else:
            for index in range(word_offsets[row], word_offsets[row + 1]):
                for part in range(bounds[words[index]], bounds[words[index] + 1]):
                    tokens[out] = spelled[part]
                    out += 1
        offsets[row + 1] = out
