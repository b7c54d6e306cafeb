"""What search needs of a captioner: nothing but to start and to take a step.

Shapes: `b` pictures, `n` hypotheses of each. Memory tensors are (b, ...), one row a picture, never copied for the
hypotheses; state tensors are (b, n, ...). Both are opaque trees (see `captrial.decoding.trees`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Step(NamedTuple):
    """The result of one step."""

    logits: Tensor  # (b, n, words)
    state: Any
    attention: Tensor | None  # (b, n, k): where this step looked, summing to 1


class Speaker(Protocol):
    """A model that continues sentences word by word."""

    def start(self, memory: Any) -> Any:
        """The state before the first word, for one hypothesis a picture: tensors (b, 1, ...)."""
        ...

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read `tokens` (b, n), the last word of every hypothesis, and score the next."""
        ...
