"""Repeated words in captions (Wan 2022 section 4.3), by model: one word three or more times in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from captrial.compete.selection.token_rows import TokenEncoder, Tokenizer
from captrial.compete.storage.caption_pool import CaptionSource
from captrial.metrics.caption_statistics import find_runs

_EXAMPLES = 24


@dataclass(frozen=True)
class ModelRepetition:
    """How many captions of one model have a repeated word, which words, and the first examples."""

    model: str
    captions: int  # in all
    repeated: int  # with a repeated word
    words: dict[str, int]  # captions in which the word stands three or more times in a row, most frequent first
    examples: tuple[tuple[str, str, str], ...]  # (image, caption, word)

    @property
    def share(self) -> float:
        """Captions with a repeated word among all."""
        return self.repeated / self.captions if self.captions else 0.0


def find_repetition(
    pool: CaptionSource, tokenize: Tokenizer | None = None, progress: Callable[[], None] = lambda: None
) -> list[ModelRepetition]:
    """Search all captions of the pool, block by block; `progress` is called after each block."""
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
            runs = find_runs(rows.tokens, rows.offsets)
            found = sorted(set(zip(runs.text.tolist(), runs.word.tolist(), strict=True)))  # once a caption and word
            repeated[model] += len({row for row, _ in found})
            vocabulary = encoder.vocabulary() if found else []
            for row, token in found:
                word = vocabulary[token]
                words[model][word] += 1
                if len(examples[model]) < _EXAMPLES:
                    examples[model].append((block.ids[row].as_py(), block.captions[0][row].as_py(), word))
        progress()
    return [
        ModelRepetition(
            name, int(captions[model]), repeated[model], dict(words[model].most_common()), tuple(examples[model])
        )
        for model, name in enumerate(pool.models)
    ]
