"""A small untrained captioner on the toy world, and features that are random but always the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from zlib import crc32

import numpy as np
import torch

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import create
from captrial.language.tokenizer import tokenize_all
from captrial.language.vocabulary import Vocabulary
from captrial.records import Sample
from captrial.toyworld import ToyWorld
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess

SIDE, WIDTH = 4, 8
VISION = {"backbone": "made up", "preprocess": Preprocess().describe(), "width": WIDTH}


@cache
def toy_samples(count: int = 5) -> tuple[Sample, ...]:
    return tuple(ToyWorld(size=64).sample("test", index) for index in range(count))


@cache
def toy_checkpoint(preset: str = "show_attend_tell-small", seed: int = 0) -> Checkpoint:
    captions = tokenize_all([caption for sample in toy_samples() for caption in sample.captions])
    words = Vocabulary.build((caption.split() for caption in captions), 1)
    torch.manual_seed(seed)
    return Checkpoint(create(preset, words=len(words), features=WIDTH).eval(), words, VISION)


class ToyFeatures:
    """A grid of random cells an image; with `token` an element for the whole image stands before them."""

    def __init__(self, token: bool = False) -> None:
        self.token = token

    def get(self, image_ids: Sequence[str]) -> Features:
        boxes = grid_boxes(SIDE, SIDE)
        if self.token:
            boxes = torch.cat([torch.tensor([[0.0, 0.0, 1.0, 1.0]]), boxes])
        made = [np.random.default_rng(crc32(name.encode())).normal(size=(len(boxes), WIDTH)) for name in image_ids]
        elements = torch.tensor(np.stack(made), dtype=torch.float32)
        return Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool), boxes.expand(len(made), -1, -1))
