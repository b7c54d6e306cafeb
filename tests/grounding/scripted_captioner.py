"""A captioner with given captions, whose words are attributed to given cells, and images for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from captrial.attribution.dataset_attribution import Words, WordWeights
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.preprocess import Preprocess

CELLS = grid_boxes(2, 2).double().numpy()
LABELS = ["dog", "cat", "car"]


class Scripted:
    """Has given captions; all weight of word w is on the cell given for it."""

    name, method, preprocess = "scripted", "attention", Preprocess()

    def __init__(self, captions: dict[str, str], cells: dict[str, list[int]]) -> None:
        self.captions, self.cells, self.asked = captions, cells, 0

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        self.asked += len(image_ids)
        return [self.captions[name] for name in image_ids]

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        return [[WordWeights(np.eye(4)[self.cells[name]].reshape(-1, 4), CELLS, (2, 2))] for name in image_ids]


def sample(name: str, *regions: tuple[str, tuple[int, int, int, int]]) -> Sample:
    return Sample(
        ImageRef(name, width=100, height=100), ("x",), "test", tuple(Region(Box(*b), label) for label, b in regions)
    )


DOG, CAT, CAR = ("dog", (0, 0, 50, 50)), ("cat", (50, 0, 100, 50)), ("car", (0, 50, 50, 100))
IMAGES = [sample("1", DOG, CAT, CAR), sample("2", DOG, CAT), sample("3"), sample("4", DOG)]
SCRIPT = Scripted(
    {"1": "a dog and a cat", "2": "a puppy near a car", "3": "a dog", "4": "running"},
    {"1": [0, 0, 1, 0, 2], "2": [1, 0, 0, 0, 0], "3": [0, 0], "4": [0]},
)
