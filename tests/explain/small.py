"""Small captioners in float64, features and targets for the tests of explanations."""

from __future__ import annotations

import dataclasses

import torch

from captrial.attribution.subject import Subject, Targets, from_features, word_targets
from captrial.captioners import ARCHITECTURES, PRESETS, Captioner, create
from captrial.captioners.protocols import WordSpan
from captrial.vision.features.visual_features import Features

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
