"""Twenty images with random features, and one caption each: enough to memorise."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from captrial.language.vocabulary import Vocabulary
from captrial.records import ImageRef, Sample
from captrial.training.data import tokenize_captions
from captrial.vision.features.visual_features import Features

ANIMALS = ("dog", "cat", "horse", "cow", "bird")
PLACES = ("on the beach", "in a green field", "near an old red house", "under a tall tree with yellow leaves")
ELEMENTS, SIZE = 6, 24


def samples(count: int = 20, captions: int = 1) -> list[Sample]:
    """Images with captions that differ in subject and place."""
    made = []
    for number in range(count):
        animal, place = ANIMALS[number % 5], PLACES[number // 5 % 4]
        texts = [f"a {animal} stands {place}", f"the {animal} is {place}", f"one {animal} waits {place}"]
        made.append(Sample(ImageRef(str(number), width=96, height=64), tuple(texts[:captions]), split="train"))
    return made


def vocabulary(of: Sequence[Sample]) -> Vocabulary:
    return Vocabulary.build((caption for captions in tokenize_captions(of) for caption in captions), 1)


class RandomFeatures:
    """Features that are random but always the same, with boxes, relations and attributes.

    With `twins` every second image has the elements of the one before it: only boxes and graphs differ.
    """

    def __init__(self, words: int, count: int = 20, seed: int = 0, twins: bool = False) -> None:
        generator = torch.Generator().manual_seed(seed)
        corners = torch.rand(count, ELEMENTS, 2, 2, generator=generator).sort(2).values
        self.features = Features(
            torch.randn(count, ELEMENTS, SIZE, generator=generator),
            torch.ones(count, ELEMENTS, dtype=torch.bool),
            corners.flatten(2),
            torch.randint(0, min(ELEMENTS, words), (count, 3, 3), generator=generator),
            torch.randint(4, words, (count, ELEMENTS, 2), generator=generator),
        )
        if twins:
            self.features.elements[1::2] = self.features.elements[::2]

    def get(self, image_ids: Sequence[str]) -> Features:
        return self.features.select(torch.tensor([int(image_id) for image_id in image_ids]))
