"""What is explained: one image before one captioner, as a differentiable way from an input tensor to word scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from captrial.captioners.base import Captioner
from captrial.captioners.explainable import WHOLE, Explainable, TokenLogits, VisualInput
from captrial.decoding.protocol import BOS
from captrial.errors import InputError
from captrial.records import Box
from captrial.vision.backbones.base import Backbone
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess

Encode = Callable[[Tensor], Any]
Decode = Callable[[Any, Tensor], TokenLogits]


@dataclass(frozen=True, eq=False)
class Subject:
    """The input of one image and the two halves of the model; see `captrial.captioners.explainable`."""

    inputs: Tensor  # (k, d) visual elements or (3, h, w) normalised pixels
    encode: Encode  # (b, *inputs.shape) -> memory, rows (b, ...)
    decode: Decode  # memory, tokens (n, t) -> TokenLogits
    cells: Tensor | None = None  # (k, 4) relative boxes of elements, or of what attention ranges over
    window: tuple[float, float, float, float] = WHOLE  # the part of the image that the boxes are relative to
    see: Callable[[Tensor], Tensor] | None = None  # where `encode` is made of two: (b, 3, h, w) -> elements (b, k, d)
    beyond: Encode | None = None  # and elements (b, k, d) -> memory

    @property
    def is_pixels(self) -> bool:
        """Whether the input is an image rather than a set of elements."""
        return self.inputs.ndim == 3

    def hear(self, inputs: Tensor, tokens: Tensor) -> TokenLogits:
        """Both halves: (b, *inputs.shape), (n, t) -> `TokenLogits`."""
        return self.decode(self.encode(inputs), tokens)


def from_features(captioner: Captioner, features: Features, window: tuple[float, ...] = WHOLE) -> Subject:
    """One of the twelve on the features of one image (regions, grid or ViT): elements are the input."""
    if len(features) != 1:
        raise InputError(f"an explanation is about one image; these are the features of {len(features)}")
    features = _unpadded(features)

    def encode(inputs: Tensor) -> Any:
        return captioner.encode(_repeat(features, inputs))

    cells = None if features.boxes is None else features.boxes[0]
    return Subject(features.elements[0], encode, decoder_of(captioner), cells, window)  # type: ignore[arg-type]


def from_pixels(captioner: Captioner, backbone: Backbone, image: Image.Image) -> Subject:
    """One of the twelve with its backbone: the normalised pixels are the input."""
    device = next(captioner.parameters()).device
    pixels = backbone.preprocess(image).to(device)

    def beyond(elements: Tensor) -> Any:
        return captioner.encode(backbone.as_features(elements))

    def encode(inputs: Tensor) -> Any:
        return beyond(backbone.elements(inputs))

    window = seen_window(backbone.preprocess, *image.size)
    cells = backbone.cells().to(device)
    return Subject(pixels, encode, decoder_of(captioner), cells, window, backbone.elements, beyond)


def from_explainable(captioner: Explainable, image: Image.Image) -> Subject:
    """Any captioner that keeps the protocol: transformers models, VLMs, your own."""
    seen: VisualInput = captioner.visual_input(image)
    return Subject(seen.inputs, captioner.encode, captioner.decode, seen.cells, seen.window)


def decoder_of(captioner: Captioner) -> Decode:
    """Teacher forcing behind `Explainable.decode`: BOS is put in front, the last word needs no reading."""

    def decode(memory: Any, tokens: Tensor) -> TokenLogits:
        read = torch.cat([tokens.new_full((len(tokens), 1), BOS), tokens[:, :-1]], 1)
        b = _rows(memory)
        return TokenLogits(*captioner.teacher_force(read.expand(b, *read.shape), memory))

    return decode


def seen_window(preprocess: Preprocess, width: int, height: int) -> tuple[float, float, float, float]:
    """The part of an image of some size that its preprocessing shows the model, relative to the image."""
    box = preprocess.to_image(Box(0.0, 0.0, 1.0, 1.0), width, height)
    return box.x1 / width, box.y1 / height, box.x2 / width, box.y2 / height


def _rows(memory: Any) -> int:
    from captrial.decoding.trees import first_tensor

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
