"""Tokenised texts as flat arrays of word ids: the form in which every n-gram metric sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sentences:
    """`words[offsets[i]:offsets[i + 1]]` are the word ids of sentence i; id j means `vocabulary[j]`."""

    words: NDArray[np.int32]  # (tokens,)
    offsets: Ints  # (sentences + 1,)
    vocabulary: tuple[str, ...]

    @classmethod
    def split_at_blanks(cls, texts: Sequence[str]) -> Sentences:
        """Words as `text.split(" ")` gives them: an empty text is one empty word (ROUGE-L of the COCO toolkit)."""
        lists = pc.split_pattern(_arrow(texts), " ")
        encoded = lists.flatten().dictionary_encode()
        words = encoded.indices.to_numpy(zero_copy_only=False)
        return cls(words, lists.offsets.to_numpy().astype(np.int64), tuple(encoded.dictionary.to_pylist()))

    @classmethod
    def split(cls, texts: Sequence[str]) -> Sentences:
        """Words as `text.split()` gives them: no empty ones, other white space separates too (BLEU and CIDEr there)."""
        return cls.split_at_blanks(texts).resplit(texts)

    def resplit(self, texts: Sequence[str]) -> Sentences:
        """From `split_at_blanks` to `split` of the same texts."""
        sentences = self
        if any(len(word.split()) > 1 for word in self.vocabulary):  # PTB joins `1 1/2` by a no-break space
            sentences = Sentences.split_at_blanks([" ".join(text.split()) for text in texts])
        return sentences._without_empty_words()

    @property
    def lengths(self) -> Ints:
        """(sentences,): words of each sentence."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.offsets) - 1

    def _without_empty_words(self) -> Sentences:
        empty = np.array([not word.strip() for word in self.vocabulary], dtype=bool)
        if not empty.any():
            return self
        kept = ~empty[self.words]
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        return Sentences(self.words[kept], offsets, self.vocabulary)


def _arrow(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair, as JSON may carry it
        return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())
