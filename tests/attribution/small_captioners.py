"""Small untrained captioners, their features and targets, and a backbone of one convolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from captioners import tiny_captioners
from captioners.tiny_captioners import SIZE, TINY, WORDS, make_features
from captrial.attribution.subject import Subject, Targets, from_features, word_targets
from captrial.captioners import Captioner, Checkpoint
from captrial.captioners.protocols import WordSpan
from captrial.captioners.trained import TrainedCaptioner
from captrial.language.vocabulary import Vocabulary
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.preprocess import Preprocess

TOKENS = [5, 7, 9, 4, 11, 6]
SHALLOW = {**TINY, "layers": 2, "blocks": 2, "encoder_layers": 2, "decoder_layers": 2}


def tiny(name: str, seed: int = 0, **options: object) -> Captioner:
    """A small captioner of two layers in float64 and evaluation mode."""
    return tiny_captioners.tiny(name, seed, sizes=SHALLOW, **options)


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
