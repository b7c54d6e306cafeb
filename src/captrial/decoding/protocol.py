"""What decoding needs of a captioner (`StepModel`) and what it returns (`Decoded`).

Shapes: `b` images, `n` hypotheses of each. Memory tensors are (b, ...), one row an image, never copied for the
hypotheses; state tensors are (b, n, ...). Both are opaque trees (see `captrial.decoding.trees`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from captrial.errors import InputError

PAD, BOS, EOS = 0, 1, 2  # ids of the special tokens, as in every vocabulary of captrial


class Step(NamedTuple):
    """The result of one step."""

    logits: Tensor  # (b, n, words)
    state: Any
    attention: Tensor | None  # (b, n, k) over the visual elements, summing to 1


class StepModel(Protocol):
    """A model that extends captions word by word."""

    def start(self, memory: Any) -> Any:
        """The state before the first word, for one hypothesis an image: tensors (b, 1, ...)."""
        ...

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read `tokens` (b, n), the last word of every hypothesis, and score the next word."""
        ...


@dataclass(frozen=True, eq=False)
class Decoded:
    """Captions as token ids, best first: `b` images, `n` captions of each, `t` steps.

    Where the constraints leave fewer than `n` captions of an image, the others are empty: PAD only, score -inf.
    """

    tokens: Tensor  # (b, n, t); EOS is kept where a caption ended, PAD after it
    scores: Tensor  # (b, n): what the captions were ranked by
    log_probs: Tensor  # (b, n, t): log-probability of each token, 0 at PAD
    attention: Tensor | None = None  # (b, n, t, k), with `trace`

    def captions(self) -> list[list[list[int]]]:
        """Word ids of every caption, special tokens removed: [image][caption][word]."""
        return [
            [[token for token in caption if token not in (PAD, BOS, EOS)] for caption in captions]
            for captions in self.tokens.tolist()
        ]

    def best(self) -> list[list[int]]:
        """Word ids of the best caption of every image."""
        return [captions[0] for captions in self.captions()]


def require_positive(**numbers: float | None) -> None:
    """Raise `InputError` for a number that leaves nothing to choose from; None stands for "not given".

    >>> require_positive(beam=5, top_k=None)
    """
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InputError(f"{name}={number} leaves nothing to choose from; give a number above 0")
