"""Small untrained captioners, their features and targets, and a backbone of one convolution."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from captrial.attribution.subject import Subject, Targets, from_features, word_targets
from captrial.captioners import ARCHITECTURES, PRESETS, Captioner, Checkpoint, create
from captrial.captioners.protocols import WordSpan
from captrial.captioners.trained import TrainedCaptioner
from captrial.language.vocabulary import Vocabulary
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess

WORDS, SIZE, TOKENS = 23, 12, [5, 7, 9, 4, 11, 6]
TINY = {
    "width": 24,
    "heads": 4,
    "hidden": 32,
    "attention": 16,
    "embedding": 16,
    "dictionary": 30,
    "squeeze": 8,
    "layers": 2,
    "blocks": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
}


def tiny(name: str, seed: int = 0, **options: object) -> Captioner:
    """A small captioner in float64 and evaluation mode."""
    torch.manual_seed(seed)
    config = ARCHITECTURES[PRESETS[name].architecture].captioner.Config
    known = {field.name for field in dataclasses.fields(config)}
    sizes = {key: value for key, value in TINY.items() if key in known}
    return create(name, words=WORDS, features=SIZE, **{**sizes, **options}).double().eval()


def make_features(images: int = 1, elements: int = 7, seed: int = 1) -> Features:
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(images, elements, 2, 2, generator=generator).double().sort(2).values
    relations = torch.randint(0, max(elements, 1), (images, 4, 3), generator=generator)
    attributes = torch.randint(4, WORDS, (images, elements, 2), generator=generator)
    attributes[:, ::2, 1] = -1
    return Features(
        torch.randn(images, elements, SIZE, generator=generator).double(),
        torch.ones(images, elements, dtype=torch.bool),
        corners.flatten(2),
        relations,
        attributes,
    )


def subject_of(name: str, **options: object) -> Subject:
    return from_features(tiny(name, **options), make_features())


def targets_of(tokens: list[int] = TOKENS) -> Targets:
    return word_targets(tokens, [WordSpan(str(token), place, place + 1) for place, token in enumerate(tokens)])


KNOWN = ("a", "man", "dog", "cat", "runs", "on", "grass", "red", "the", "ball", "sits", "two")


class Patches(Backbone):
    """A small convolution, a ReLU6: 3 x 3 cells."""

    name, width = "patches", SIZE

    def __init__(self, mode: str = "stretch") -> None:
        super().__init__()
        torch.manual_seed(3)
        self.preprocess = Preprocess(24, mode, 32)  # type: ignore[arg-type]
        self.network = nn.Sequential(nn.Conv2d(3, SIZE, 8, 8), nn.ReLU6(inplace=True))
        self.requires_grad_(False).eval()

    def elements(self, pixels: Tensor) -> Tensor:
        cells: Tensor = self.network(pixels)
        return cells.flatten(2).transpose(1, 2)

    def cells(self) -> Tensor:
        return grid_boxes(3, 3)


def trained_captioner() -> TrainedCaptioner:
    """A Transformer with random weights behind `Patches`; it knows the words of `KNOWN`."""
    vocabulary = Vocabulary((*KNOWN, *(f"word{number}" for number in range(WORDS - 4 - len(KNOWN)))))
    return TrainedCaptioner(Checkpoint(tiny("transformer").float(), vocabulary), Patches(), beam=2, max_words=6)


def noise_image() -> Image.Image:
    """60 x 40 pixels of noise."""
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8))


class BlackBox:
    """Says *dog* while the upper left of the image is bright, and nothing else."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        corners = [np.asarray(image.crop((0, 0, 10, 10))).mean() for image in images]
        return ["two dogs run" if corner > 200 else "a man runs" for corner in corners]


def bright_corner() -> Image.Image:
    image = Image.new("RGB", (50, 50))
    image.paste((255, 255, 255), (0, 0, 10, 10))
    return image
