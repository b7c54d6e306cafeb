"""Captions that got stuck (Wan 2022 section 4.3): one word three or more times in a row, by model and by word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from captrial.compete.selection.token_rows import TokenEncoder, Tokenizer
from captrial.compete.storage.caption_pool import Pool

IN_A_ROW = 3
_EXAMPLES = 24

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Repetition:
    """How often one model repeats itself, which words, and the first examples (image, caption, word)."""

    model: str
    captions: int  # looked at
    repeated: int  # with a repeated word
    words: dict[str, int]  # captions in which the word stands three or more times in a row, most frequent first
    examples: tuple[tuple[str, str, str], ...]

    @property
    def share(self) -> float:
        """Repeated captions among all."""
        return self.repeated / self.captions if self.captions else 0.0


def repetition(
    pool: Pool, tokenize: Tokenizer | None = None, progress: Callable[[], None] = lambda: None
) -> list[Repetition]:
    """Look through all captions of the pool, block by block."""
    encoder = TokenEncoder(tokenize)
    captions = np.zeros(len(pool.models), np.int64)
    repeated: Counter[int] = Counter()
    words: list[Counter[str]] = [Counter() for _ in pool.models]
    examples: list[list[tuple[str, str, str]]] = [[] for _ in pool.models]
    for index in range(pool.blocks):
        for model in range(len(pool.models)):
            block = pool.block(index, [model])
            rows = encoder.encode(block.captions[0])
            captions[model] += len(rows)
            found = _runs(rows.tokens, rows.offsets, IN_A_ROW)
            repeated[model] += len({row for row, _ in found})
            vocabulary = encoder.vocabulary() if found else []
            for row, token in found:
                word = vocabulary[token]
                words[model][word] += 1
                if len(examples[model]) < _EXAMPLES:
                    examples[model].append((block.ids[row].as_py(), block.captions[0][row].as_py(), word))
        progress()
    return [
        Repetition(
            name, int(captions[model]), repeated[model], dict(words[model].most_common()), tuple(examples[model])
        )
        for model, name in enumerate(pool.models)
    ]


def _runs(tokens: NDArray[np.int32], offsets: Ints, in_a_row: int) -> list[tuple[int, int]]:
    """(caption, token) of every word that is repeated so often, once a caption and word."""
    rows, repeated = _find_runs(tokens, offsets, in_a_row)
    return sorted(set(zip(rows.tolist(), repeated.tolist(), strict=True)))


@numba.njit(cache=True, nogil=True)
def _find_runs(tokens: NDArray[np.int32], offsets: Ints, in_a_row: int) -> tuple[Ints, Ints]:
    rows, found = [np.int64(0) for _ in range(0)], [np.int64(0) for _ in range(0)]
    for row in range(len(offsets) - 1):
        length = 0
        for index in range(offsets[row], offsets[row + 1]):
            again = index > offsets[row] and tokens[index] == tokens[index - 1]
            length = length + 1 if again else 1
            if length == in_a_row:
                rows.append(np.int64(row))
                found.append(np.int64(tokens[index]))
    return np.array(rows, np.int64), np.array(found, np.int64)
