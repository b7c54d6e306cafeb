"""What a captioner must offer: `AnyCaptioner` to caption images, `Explainable` to have its words explained.

Any object with the methods of `Explainable` can be explained by gradients (`captrial.explain`), whatever library it
comes from. Captrial's own architectures are adapted by `captrial.attribution.subject`; captioners and VLMs of the
transformers library implement the protocol themselves (`captrial.captioners.huggingface`):

    visual = captioner.visual_input(image)                pixels (3, h, w), normalised as the model needs them
    memory = captioner.encode(visual.inputs[None])        the visual part, once for all words; differentiable
    output = captioner.decode(memory, tokens)             teacher forcing: logits (b, n, t, vocabulary)

`tokens` (n, t) are the ids of `n` captions **without** BOS, prompt or image placeholders: the adapter adds what its
model needs in front, and logits at position i score token i, given tokens 0 .. i - 1. Captions shorter than `t` are
padded at the end with any valid id; those positions are never read. Rows of memory are images (points of a path between
two images, when integrating), and every row is combined with all `n` captions. Parameters need no gradient; nothing may
be detached between inputs and logits, and nothing may run under `no_grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from PIL import Image

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = (0.0, 0.0, 1.0, 1.0)


class AnyCaptioner(Protocol):
    """A black box: opened images in, one caption each out."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption an image, in order."""
        ...


class WordSpan(NamedTuple):
    """A word and its tokens `[start, end)`: sub-words are merged by the captioner's own tokeniser."""

    text: str
    start: int
    end: int


class VisualInput(NamedTuple):
    """One image as a captioner's input: the tensor that attribution differentiates with respect to."""

    inputs: Tensor  # (3, h, w) normalised pixels, or (k, d) visual elements
    cells: Tensor | None = None  # (k, 4) boxes of the elements, relative to the square that attention ranges over
    window: tuple[float, float, float, float] = WHOLE  # the part of the image inside that square, relative to it


class TokenLogits(NamedTuple):
    """The result of teacher forcing."""

    logits: Tensor  # (b, n, t, vocabulary)
    attention: Tensor | None = None  # (b, n, t, k) over the elements, rows summing to 1; None if there is none


class LayerAttention(NamedTuple):
    """Attention of a layer, between positions of the input: those from `row` on attend to those from `column` on."""

    weights: Tensor  # (1, heads, rows, columns), or what a method left of it
    row: int = 0
    column: int = 0


class ImageTokensLike(Protocol):
    """One image in front of a decoder that reads it as tokens; see `captrial.captioners.huggingface.image_tokens`."""

    embeddings: Tensor  # (k, d) of the tokens that show a part of the image
    boxes: Tensor  # (k, 4) that part, relative to the image
    places: Tensor  # (k,) their positions in the decoder's input
    prompt: Tensor  # (p,) all token ids before the caption

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        """Teacher forcing of `tokens` (n, t) behind every row of embeddings (b, k, d)."""
        ...

    def attend(
        self, tokens: Tensor, keep: Callable[[LayerAttention], LayerAttention | None], gradients: bool = False
    ) -> tuple[Tensor, list[LayerAttention]]:
        """Logits (1, 1, t, vocabulary) of `tokens` (t,), and what `keep` leaves of every layer's attention."""
        ...

    def spread(self, values: Tensor) -> Tensor:
        """Values of the positions `places` (..., places) as values of the embeddings (..., k)."""
        ...

    def queries(self, count: int) -> Tensor:
        """Positions in the decoder's input that predict a caption's first `count` tokens."""
        ...


@runtime_checkable
class ReadsImageTokens(Protocol):
    """A captioner whose decoder reads the image as tokens: a decoder-only VLM."""

    def image_tokens(self, image: Image.Image) -> ImageTokensLike:
        """The tokens of an image; an `InputError` where their places in the image are not known."""
        ...


@runtime_checkable
class Explainable(Protocol):
    """A captioner whose words can be differentiated with respect to its visual input."""

    def visual_input(self, image: Image.Image) -> VisualInput:
        """Prepare an image as the model's input."""
        ...

    def encode(self, inputs: Tensor) -> Any:
        """The visual part of the model: (b, *inputs.shape) -> memory, a tree of tensors (b, ...)."""
        ...

    def decode(self, memory: Any, tokens: Tensor) -> TokenLogits:
        """Teacher forcing of `tokens` (n, t) on every row of memory."""
        ...

    def generate(self, image: Image.Image) -> list[int]:
        """The model's own caption of an image: token ids, without BOS, prompt, EOS and padding."""
        ...

    def tokenize(self, caption: str) -> list[int]:
        """Token ids of a caption given by the user, in the same form."""
        ...

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """The words of some tokens, in order; each token belongs to at most one word."""
        ...
