"""What explanations need of a captioner: a differentiable way from its input to the scores of given tokens.

Any object with the methods of `Explainable` can be explained by gradients (`captrial.explain`), whatever library it
comes from. Our own twelve get theirs from `captrial.attribution.subject`; a transformers captioner or VLM implements the
protocol in its adapter:

    seen = captioner.visual_input(image)                      pixels (3, h, w), normalised as the model wants them
    memory = captioner.encode(seen.inputs[None])       the visual part, once for all words; differentiable
    heard = captioner.decode(memory, tokens)           teacher forcing: logits (b, n, t, vocabulary)

`tokens` (n, t) are the ids of `n` sentences **without** BOS, prompt or image placeholders: the adapter puts in front
what its model wants, and logits at position i score token i (so they have seen tokens 0 .. i - 1). Sentences shorter
than `t` are padded at the end with any valid id; those positions are never read. Rows of memory are images (points
of a path between two images, when integrating), and every row is asked about all `n` sentences.
Parameters need no gradient; nothing may be detached between inputs and logits, nothing may run under `no_grad`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from PIL import Image
from torch import Tensor

WHOLE = (0.0, 0.0, 1.0, 1.0)


class WordSpan(NamedTuple):
    """A word and its tokens `[start, end)`: sub-words are merged by the captioner's own tokeniser."""

    text: str
    start: int
    end: int


class VisualInput(NamedTuple):
    """What a captioner sees of one image: the tensor that attribution differentiates with respect to."""

    inputs: Tensor  # (3, h, w) normalised pixels, or (k, d) visual elements
    cells: Tensor | None = None  # (k, 4) relative boxes in the square of what attention and elements range over
    window: tuple[float, float, float, float] = WHOLE  # the part of the image inside that square, relative to it


class TokenLogits(NamedTuple):
    """The result of teacher forcing."""

    logits: Tensor  # (b, n, t, vocabulary)
    attention: Tensor | None = None  # (b, n, t, k): where each token looked, rows summing to 1; None if there is none


@runtime_checkable
class Explainable(Protocol):
    """A captioner whose words can be differentiated with respect to what it sees."""

    def visual_input(self, image: Image.Image) -> VisualInput:
        """Prepare an image as the model's input."""
        ...

    def encode(self, inputs: Tensor) -> Any:
        """The visual part of the model: (b, *seen.inputs.shape) -> memory, a tree of tensors (b, ...)."""
        ...

    def decode(self, memory: Any, tokens: Tensor) -> TokenLogits:
        """Teacher forcing of `tokens` (n, t) on every row of memory."""
        ...

    def generate(self, image: Image.Image) -> list[int]:
        """The model's own caption of an image: token ids, without BOS, prompt, EOS and padding."""
        ...

    def tokenize(self, caption: str) -> list[int]:
        """Token ids of a sentence given by the user, in the same form."""
        ...

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """The words of some tokens, in order; each token belongs to at most one word."""
        ...
