"""Every architecture at a size at which its equations can be checked in milliseconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from captrial.captioners import ARCHITECTURES, PRESETS, Captioner, create
from captrial.vision.features.visual_features import Features

WORDS, SIZE = 23, 12  # of the vocabulary; width of the features
TINY = {
    "width": 24,
    "heads": 4,
    "hidden": 32,
    "attention": 16,
    "embedding": 16,
    "dictionary": 30,
    "squeeze": 8,
    "critic_width": 16,
    "critic_embedding": 8,
}


def tiny(name: str, seed: int = 0, words: int = WORDS, sizes: Mapping[str, int] = TINY, **options: object) -> Captioner:
    """A small captioner in float64 and evaluation mode; it takes the sizes that it knows."""
    torch.manual_seed(seed)
    config = ARCHITECTURES[PRESETS[name].architecture].captioner.Config
    known = {field.name for field in dataclasses.fields(config)}
    chosen = {key: value for key, value in sizes.items() if key in known}
    return create(name, words=words, features=SIZE, **{**chosen, **options}).double().eval()


def make_features(images: int = 1, elements: int = 7, seed: int = 1, words: int = WORDS) -> Features:
    """Random features with boxes, relations and attributes; some relations and attributes are absent."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(images, elements, 2, 2, generator=generator).double().sort(2).values
    relations = torch.randint(0, max(elements, 1), (images, 4, 3), generator=generator)
    relations[0, 2:] = -1
    attributes = torch.randint(4, words, (images, elements, 2), generator=generator)
    attributes[:, ::2, 1] = -1
    attributes[:, 1:2] = -1
    return Features(
        torch.randn(images, elements, SIZE, generator=generator).double(),
        torch.ones(images, elements, dtype=torch.bool),
        corners.flatten(2),
        relations,
        attributes,
    )
