"""What is explained: a captioner as a differentiable function of one image's input, and the scores of the words.

A `Subject` is the function, `Targets` are the scores S that attribution methods differentiate: those of the words of
a caption, or the lead of a word over another one ("why cat and not dog?").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from captrial.attribution.attribution import WHOLE, Array, Attribution, grid_of, on_image, tile
from captrial.captioners.base import Captioner
from captrial.captioners.protocols import (
    Explainable,
    ImageTokensLike,
    ReadsImageTokens,
    TokenLogits,
    VisualInput,
    WordSpan,
)
from captrial.decoding.protocol import BOS, first_tensor
from captrial.errors import InputError
from captrial.records import Box
from captrial.vision.backbones.base import Backbone
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess

if TYPE_CHECKING:
    from captrial.attribution.methods.registry import AttributionSettings

ScoreKind = Literal["logit", "log_probability"]
Encode = Callable[[Tensor], Any]
Decode = Callable[[Any, Tensor], TokenLogits]
CHUNK_POSITIONS = 16384  # positions of a decoder's input, over all pairs of a point and a word in flight


@dataclass(frozen=True, eq=False)
class Subject:
    """The input of one image, and the encoder and decoder of the model; see `captrial.captioners.protocols`."""

    inputs: Tensor  # (k, d) visual elements or (3, h, w) normalised pixels
    encode: Encode  # (b, *inputs.shape) -> memory, rows (b, ...)
    decode: Decode  # memory, tokens (n, t) -> TokenLogits
    cells: Tensor | None = None  # (k, 4) relative boxes of elements, or of what attention ranges over
    window: tuple[float, float, float, float] = WHOLE  # the part of the image that the boxes are relative to
    backbone: Callable[[Tensor], Tensor] | None = None  # first half of `encode`: (b, 3, h, w) -> elements (b, k, d)
    encode_elements: Encode | None = None  # second half of `encode`: elements (b, k, d) -> memory
    image_tokens: ImageTokensLike | None = None  # of a decoder that reads the image as tokens: they are the elements
    chunk: int | None = None  # pairs of a point and a word in flight, where the default would take too much memory

    @property
    def is_pixels(self) -> bool:
        """Whether the input is an image rather than a set of elements."""
        return self.inputs.ndim == 3

    def forward(self, inputs: Tensor, tokens: Tensor) -> TokenLogits:
        """Encoder and decoder: (b, *inputs.shape), (n, t) -> `TokenLogits`."""
        return self.decode(self.encode(inputs), tokens)

    def input_boxes(self) -> tuple[Array, tuple[int, int] | None]:
        """Boxes of the input's elements or pixels relative to the whole image, and their grid."""
        if self.is_pixels:
            grid = self.inputs.shape[1], self.inputs.shape[2]
            return tile(*grid, self.window), grid
        if self.cells is None:
            return np.tile(np.array(self.window), (len(self.inputs), 1)), None
        cells = self.cells.double().cpu().numpy()
        return on_image(cells, self.window), grid_of(cells)


def from_features(captioner: Captioner, features: Features, window: tuple[float, ...] = WHOLE) -> Subject:
    """One of our captioners on the features of one image (regions, grid or ViT): visual elements are the input."""
    if len(features) != 1:
        raise InputError(f"an explanation is of one image; these are the features of {len(features)}")
    features = _unpadded(features)

    def encode(inputs: Tensor) -> Any:
        return captioner.encode(_repeat(features, inputs))

    cells = None if features.boxes is None else features.boxes[0]
    return Subject(features.elements[0], encode, decoder_of(captioner), cells, window)  # type: ignore[arg-type]


def from_pixels(captioner: Captioner, backbone: Backbone, image: Image.Image) -> Subject:
    """One of our captioners with its backbone: normalised pixels are the input."""
    device = next(captioner.parameters()).device
    pixels = backbone.preprocess(image).to(device)

    def encode_elements(elements: Tensor) -> Any:
        return captioner.encode(backbone.as_features(elements))

    def encode(inputs: Tensor) -> Any:
        return encode_elements(backbone.elements(inputs))

    window = seen_window(backbone.preprocess, *image.size)
    cells = backbone.cells().to(device)
    return Subject(pixels, encode, decoder_of(captioner), cells, window, backbone.elements, encode_elements)


def from_explainable(captioner: Explainable, image: Image.Image) -> Subject:
    """Any captioner that implements `Explainable`: transformers models, VLMs, your own."""
    seen: VisualInput = captioner.visual_input(image)
    return Subject(seen.inputs, captioner.encode, captioner.decode, seen.cells, seen.window)


def explainable_subject(captioner: Explainable, image: Image.Image, settings: AttributionSettings) -> Subject:
    """By image tokens where the captioner has them, unless pixels are asked for."""
    if settings.over == "elements" and isinstance(captioner, ReadsImageTokens):
        return from_image_tokens(captioner, image)
    return from_explainable(captioner, image)


def from_image_tokens(captioner: ReadsImageTokens, image: Image.Image) -> Subject:
    """A decoder-only VLM: the embeddings of its image tokens are the input."""
    seen = captioner.image_tokens(image)
    low, high = seen.boxes[:, :2].amin(0), seen.boxes[:, 2:].amax(0)  # what the model saw: cropped, or padded
    window = (*low.tolist(), *high.tolist())
    cells = (seen.boxes - low.repeat(2)) / (high - low).repeat(2)
    rows = max(1, CHUNK_POSITIONS // len(seen.prompt))
    return Subject(
        seen.embeddings, lambda elements: elements, seen.decode, cells, window, image_tokens=seen, chunk=rows
    )


def decoder_of(captioner: Captioner) -> Decode:
    """Teacher forcing as `Explainable.decode` has it: BOS is put in front, the last token is not fed."""

    def decode(memory: Any, tokens: Tensor) -> TokenLogits:
        read = torch.cat([tokens.new_full((len(tokens), 1), BOS), tokens[:, :-1]], 1)
        b = _rows(memory)
        return TokenLogits(*captioner.teacher_force(read.expand(b, *read.shape), memory))

    return decode


def seen_window(preprocess: Preprocess, width: int, height: int) -> tuple[float, float, float, float]:
    """The part of an image of some size that the model sees after preprocessing, relative to the image."""
    box = preprocess.to_image(Box(0.0, 0.0, 1.0, 1.0), width, height)
    return box.x1 / width, box.y1 / height, box.x2 / width, box.y2 / height


def _rows(memory: Any) -> int:
    return len(first_tensor(memory))


def _unpadded(features: Features) -> Features:
    """Without the padding at the end."""
    present = features.mask[0].nonzero()
    last = int(present[-1]) + 1 if len(present) else 0
    attributes, boxes = features.attributes, features.boxes
    return Features(
        features.elements[:, :last],
        features.mask[:, :last],
        None if boxes is None else boxes[:, :last],
        features.relations,
        None if attributes is None else attributes[:, :last],
    )


def _repeat(features: Features, elements: Tensor) -> Features:
    """The same image with other element vectors, once a row of `elements` (b, k, d)."""

    def expand(part: Tensor | None) -> Tensor | None:
        return None if part is None else part.expand(len(elements), *part.shape[1:])

    mask, boxes = features.mask.expand(len(elements), -1), expand(features.boxes)
    if boxes is not None:
        boxes = boxes.to(elements.dtype)
    return Features(elements, mask, boxes, expand(features.relations), expand(features.attributes))


# Targets --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Targets:
    """The scores S of `w` words as signed sums of entries of logits (b, n, t, vocabulary).

    A word of several tokens scores the sum over its tokens (the log-probability of the word is the sum of theirs).
    """

    words: tuple[str, ...]
    tokens: Tensor  # (n, t): row 0 is the caption; further rows hold the other word in its place
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
        """Values of the caption's tokens (t, ...) as means over the tokens of every word (w, ...)."""
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
    """Targets for the words of a caption; `contrasts` maps the index of a word to the tokens of another word.

    With a contrast the target is S(word) - S(other word), both after the same beginning of the caption.
    """
    captions = [list(tokens)]
    terms: list[tuple[int, int, int, int, int]] = []  # row, position, token, sign, word
    for index, word in enumerate(words):
        terms += [(0, position, tokens[position], 1, index) for position in range(word.start, word.end)]
        other = (contrasts or {}).get(index)
        if other is not None:
            row = _row_of(captions, [*tokens[: word.start], *other])
            terms += [(row, word.start + offset, token, -1, index) for offset, token in enumerate(other)]
    rows, positions, ids, signs, places = torch.tensor(terms, dtype=torch.long).reshape(-1, 5).unbind(1)
    return Targets(tuple(word.text for word in words), _padded(captions), rows, positions, ids, signs, places, kind)


def _row_of(captions: list[list[int]], wanted: list[int]) -> int:
    """The row that feeds all tokens of `wanted` but the last: row 0 serves a one-token contrast."""
    if captions[0][: len(wanted) - 1] == wanted[:-1] and len(wanted) <= len(captions[0]):
        return 0
    captions.append(wanted)
    return len(captions) - 1


def _padded(captions: list[list[int]]) -> Tensor:
    longest = max(map(len, captions))
    return torch.tensor([row + [row[-1]] * (longest - len(row)) if row else [] for row in captions], dtype=torch.long)


def find_word(words: Sequence[WordSpan], wanted: str) -> int:
    """The index of the only word that reads `wanted`."""
    found = [index for index, word in enumerate(words) if word.text.lower() == wanted.lower()]
    if not found:
        raise InputError(f"{wanted!r} is not a word of: {' '.join(word.text for word in words)}")
    if len(found) > 1:
        raise InputError(f"{wanted!r} stands {len(found)} times in the caption; name it by its index: {found}")
    return found[0]


# Attributions of a subject's input ------------------------------------------------------------------------------------


def input_attribution(subject: Subject, targets: Targets, method: str, values: Tensor) -> Attribution:
    """The attribution made of `values` (w, *input): sums over features or colour channels."""
    if not values.isfinite().all():
        raise InputError(f"{method}: gradients of this caption are not finite; try another method or float64")
    over = 1 if subject.is_pixels else 2
    boxes, grid = subject.input_boxes()
    scores, signed = (part.sum(over).flatten(1).cpu().numpy() for part in (values.abs(), values))
    return Attribution(targets.words, scores, boxes, method, signed, grid, subject.window, steps=1)


def empty_attribution(subject: Subject, targets: Targets, method: str) -> Attribution:
    """Zeros: for a caption without words or an image without elements."""
    boxes, grid = subject.input_boxes()
    zeros = np.zeros((len(targets), len(boxes)), np.float32)
    return Attribution(targets.words, zeros, boxes, method, zeros, grid, subject.window)


def is_empty(subject: Subject, targets: Targets) -> bool:
    """Whether there is no word to attribute, or no element to attribute it to."""
    return not len(targets) or not subject.inputs.numel()
