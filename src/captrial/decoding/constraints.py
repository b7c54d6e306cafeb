"""Constraints on the next word. A constraint lowers log-probabilities, in place, before a word is chosen.

Each is called with the words so far (b, n, t), BOS not among them, and log-probabilities (b, n, words).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from captrial.decoding.protocol import BOS, EOS, PAD

NEVER = float("-inf")


class Constraint(Protocol):
    """Forbids or discourages words, in place."""

    def __call__(self, words: Tensor, log_probs: Tensor) -> None:
        """Change `log_probs` (b, n, words) given the `words` (b, n, t) so far."""
        ...


def forbid_special(log_probs: Tensor) -> None:
    """PAD and BOS are never generated."""
    log_probs[..., PAD : BOS + 1] = NEVER  # neighbours: a slice costs less than an index


@dataclass(frozen=True)
class NoImmediateRepeat:
    """A word may not follow itself."""

    def __call__(self, words: Tensor, log_probs: Tensor) -> None:
        """Forbid the last word."""
        if words.shape[-1]:
            log_probs.scatter_(-1, words[..., -1:], NEVER)


@dataclass(frozen=True)
class NoRepeatedNgram:
    """No n-gram occurs twice."""

    n: int = 3

    def __call__(self, words: Tensor, log_probs: Tensor) -> None:
        """Forbid every word that would complete an n-gram that has occurred."""
        context, length = self.n - 1, words.shape[-1]
        if length < self.n:
            return
        windows = words.unfold(-1, self.n, 1)  # (b, n, windows, size)
        same = (windows[..., :context] == words[..., None, length - context :]).all(-1)
        penalty = torch.where(same, NEVER, 0.0).to(log_probs.dtype)
        log_probs.scatter_add_(-1, windows[..., -1], penalty)


@dataclass(frozen=True)
class NoBadEnding:
    """A caption may not end after a word such as "a", "the" or "with"."""

    bad: tuple[int, ...]

    def __call__(self, words: Tensor, log_probs: Tensor) -> None:
        """Forbid EOS after a bad ending."""
        if words.shape[-1]:
            bad = torch.isin(words[..., -1], words.new_tensor(self.bad))
            log_probs[..., EOS].masked_fill_(bad, NEVER)


@dataclass(frozen=True)
class Suppress:
    """Some words are never generated, e.g. the unknown-word token."""

    unwanted: tuple[int, ...]

    def __call__(self, words: Tensor, log_probs: Tensor) -> None:
        """Forbid them."""
        log_probs[..., list(self.unwanted)] = NEVER


# fmt: off
BAD_ENDINGS = (
    "a", "an", "the", "in", "for", "at", "of", "with", "before", "after", "on", "upon", "near", "to", "is", "are", "am",
)
# fmt: on


def apply(constraints: Iterable[Constraint], words: Tensor, log_probs: Tensor) -> Tensor:
    """Apply all constraints; where they leave no word at all, EOS stays possible."""
    forbid_special(log_probs)
    rules: Sequence[Constraint] = tuple(constraints)
    for rule in rules:
        rule(words, log_probs)
    if rules:
        stuck = (log_probs == NEVER).all(-1)
        log_probs[..., EOS].masked_fill_(stuck, 0.0)
    return log_probs
