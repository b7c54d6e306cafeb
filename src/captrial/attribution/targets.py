"""What is attributed: the score of every word of a sentence, or its lead over another word ("why not dog?")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from captrial.captioners.explainable import WordSpan
from captrial.errors import InputError

ScoreKind = Literal["logit", "log_probability"]


@dataclass(frozen=True, eq=False)
class Targets:
    """The scores S of `w` words as signed sums of entries of logits (b, n, t, vocabulary).

    A word of several tokens scores the sum over its tokens (the log-probability of the word is the sum of theirs).
    """

    words: tuple[str, ...]
    tokens: Tensor  # (n, t): row 0 is the sentence; further rows say the other word in its place
    row: Tensor  # (terms,)
    position: Tensor  # (terms,)
    token: Tensor  # (terms,)
    sign: Tensor  # (terms,) +1 or -1
    word: Tensor  # (terms,) the word that a term belongs to
    kind: ScoreKind = "logit"

    def __len__(self) -> int:
        return len(self.words)

    def scores(self, logits: Tensor) -> Tensor:
        """(b, n, t, vocabulary) -> (b, w)."""
        if self.kind == "log_probability":
            logits = logits.log_softmax(-1)
        terms = logits[:, self.row, self.position, self.token] * self.sign.to(logits.dtype)  # (b, terms)
        return logits.new_zeros(len(logits), len(self.words)).index_add(1, self.word, terms)

    def to(self, device: torch.device) -> Targets:
        """The same on another device."""
        names = ("tokens", "row", "position", "token", "sign", "word")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def merge(self, values: Tensor) -> Tensor:
        """Values of the sentence's tokens (t, ...) as means over the tokens of every word (w, ...)."""
        own = (self.row == 0) & (self.sign > 0)
        word, position = self.word[own], self.position[own]
        total = values.new_zeros(len(self.words), *values.shape[1:]).index_add(0, word, values[position])
        count = torch.bincount(word, minlength=len(self.words)).clamp(min=1)
        return total / count.view(-1, *[1] * (values.ndim - 1)).to(values.dtype)


def word_targets(
    tokens: Sequence[int],
    words: Sequence[WordSpan],
    contrasts: Mapping[int, Sequence[int]] | None = None,
    kind: ScoreKind = "logit",
) -> Targets:
    """The words of a sentence; `contrasts` maps a word's index to the tokens of the word it is compared with.

    With a contrast the target is S(word) - S(other word), both after the same beginning of the sentence.
    """
    sentences = [list(tokens)]
    terms: list[tuple[int, int, int, int, int]] = []  # row, position, token, sign, word
    for index, word in enumerate(words):
        terms += [(0, position, tokens[position], 1, index) for position in range(word.start, word.end)]
        other = (contrasts or {}).get(index)
        if other is not None:
            row = _row_of(sentences, [*tokens[: word.start], *other])
            terms += [(row, word.start + offset, token, -1, index) for offset, token in enumerate(other)]
    rows, positions, ids, signs, places = torch.tensor(terms, dtype=torch.long).reshape(-1, 5).unbind(1)
    return Targets(tuple(word.text for word in words), _padded(sentences), rows, positions, ids, signs, places, kind)


def _row_of(sentences: list[list[int]], wanted: list[int]) -> int:
    """The row in which all tokens of `wanted` but the last are read: row 0 does for a one-token contrast."""
    if sentences[0][: len(wanted) - 1] == wanted[:-1] and len(wanted) <= len(sentences[0]):
        return 0
    sentences.append(wanted)
    return len(sentences) - 1


def _padded(sentences: list[list[int]]) -> Tensor:
    longest = max(map(len, sentences))
    return torch.tensor([row + [row[-1]] * (longest - len(row)) if row else [] for row in sentences], dtype=torch.long)


def find_word(words: Sequence[WordSpan], wanted: str) -> int:
    """The index of the only word that reads `wanted`."""
    found = [index for index, word in enumerate(words) if word.text.lower() == wanted.lower()]
    if not found:
        raise InputError(f"{wanted!r} is not a word of: {' '.join(word.text for word in words)}")
    if len(found) > 1:
        raise InputError(f"{wanted!r} stands {len(found)} times in the caption; name it by its index: {found}")
    return found[0]
