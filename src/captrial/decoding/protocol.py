"""What search needs of a captioner: nothing but to start and to take a step.

Shapes: `b` images, `n` hypotheses of each. Memory tensors are (b, ...), one row an image, never copied for the
hypotheses; state tensors are (b, n, ...). Both are opaque trees (see `captrial.decoding.trees`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from captrial.errors import InputError


class Step(NamedTuple):
    """The result of one step."""

    logits: Tensor  # (b, n, words)
    state: Any
    attention: Tensor | None  # (b, n, k): where this step looked, summing to 1


class StepModel(Protocol):
    """A model that continues sentences word by word."""

    def start(self, memory: Any) -> Any:
        """The state before the first word, for one hypothesis an image: tensors (b, 1, ...)."""
        ...

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read `tokens` (b, n), the last word of every hypothesis, and score the next."""
        ...


# What decoding returns.


PAD, BOS, EOS = 0, 1, 2  # ids of the special tokens, as in every vocabulary of ours


@dataclass(frozen=True, eq=False)
class Decoded:
    """Captions as token ids, best first: `b` images, `n` captions of each, `t` steps.

    Where an image has fewer than `n` captions that search may say, the rest are empty: PAD only, score -inf.
    """

    tokens: Tensor  # (b, n, t); EOS is kept where it was said, PAD after it
    scores: Tensor  # (b, n): what they were ranked by
    log_probs: Tensor  # (b, n, t): log-probability of each token, 0 at PAD
    attention: Tensor | None = None  # (b, n, t, k), where a trace was asked for

    def sentences(self) -> list[list[list[int]]]:
        """Word ids of every caption, special tokens removed: [image][caption][word]."""
        return [
            [[token for token in caption if token not in (PAD, BOS, EOS)] for caption in captions]
            for captions in self.tokens.tolist()
        ]

    def best(self) -> list[list[int]]:
        """Word ids of the best caption of every image."""
        return [captions[0] for captions in self.sentences()]


# Arguments of decoding that cannot mean anything are refused before the first step.


def require_positive(**numbers: float | None) -> None:
    """Refuse numbers that leave nothing to choose from; None is what was not asked for.

    >>> require_positive(beam=5, top_k=None)
    """
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InputError(f"{name}={number} leaves nothing to choose from; give a number above 0")
