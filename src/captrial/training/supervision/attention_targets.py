"""Target maps for supervised attention (Liu 2017): where a word's attention should lie, if it has a place.

A map is painted on the square the model sees and averaged over each visual element: for a grid this is resizing by
area, for regions the share of a region inside the painted area. Maps are normalised to sum 1; words without a place
have all zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from captrial.errors import DatasetError
from captrial.records import Box, Phrase, Region, Sample
from captrial.training.data import Batch
from captrial.vision.preprocess import RESOLUTION, Preprocess, mask_on_square

Floats = NDArray[np.float64]


@dataclass(eq=False)
class AttentionTargets:
    """Targets of a batch, (b, n, t, k), from one function a caption; computed once and kept.

    `maps(row, caption)` gives the painted maps of the caption's words that have a place: {word position: square}.
    A square of None means "anywhere": a uniform target, for words that name the whole scene. What is kept is a share an
    element, not the square: a thousand times smaller.
    """

    maps: Callable[[int, int], dict[int, Floats | None]]
    _kept: dict[tuple[int, int], dict[int, NDArray[np.float32]]] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> Tensor:
        """Targets aligned with `batch.targets`."""
        if batch.features.boxes is None:
            raise DatasetError("supervised attention needs to know where visual elements are; these have no boxes")
        b, n, t = batch.targets.shape
        targets = np.zeros((b, n, t, batch.features.mask.shape[1]), np.float32)
        boxes, mask = batch.features.boxes.cpu().numpy(), batch.features.mask.cpu().numpy()
        for image, row in enumerate(batch.rows.tolist()):
            there = mask[image]
            for number, caption in enumerate(batch.captions[image].tolist()):
                for word, shares in self._of(row, caption, boxes[image][there]).items():
                    if word < t:
                        targets[image, number, word, there] = shares
        return torch.from_numpy(targets).to(batch.features.elements)

    def _of(self, row: int, caption: int, boxes: Floats) -> dict[int, NDArray[np.float32]]:
        if (row, caption) not in self._kept:
            self._kept[row, caption] = {
                word: to_elements(square, boxes).astype(np.float32) for word, square in self.maps(row, caption).items()
            }
        return self._kept[row, caption]


def to_elements(square: Floats | None, boxes: Floats) -> Floats:
    """The share of attention each element (k, 4) should get; sums to 1, if there is any element.

    Where no element overlaps the painted area, the one with the largest IoU with its bounding box gets it all, the
    nearest one where all are 0.
    """
    if square is None or not len(boxes):
        return np.full(len(boxes), 1 / max(len(boxes), 1))
    shares = _mean_inside(square, boxes)
    if shares.sum() > 0:
        return np.asarray(shares / shares.sum())
    rows, columns = np.nonzero(square)
    side = len(square)
    around = Box(columns.min() / side, rows.min() / side, (columns.max() + 1) / side, (rows.max() + 1) / side)
    ious = np.array([Box(*box).iou(around) for box in boxes])
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    far = np.hypot(*(centres - [(around.x1 + around.x2) / 2, (around.y1 + around.y2) / 2]).T)
    best = int(np.lexsort((far, -ious))[0])
    return np.asarray(np.eye(len(boxes))[best])


def _mean_inside(square: Floats, boxes: Floats) -> Floats:
    """The mean of `square` inside each relative box, by an integral image; box edges are rounded to pixels."""
    integral = np.pad(square.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    edges = np.clip(np.round(boxes * len(square)).astype(int), 0, len(square))
    x1, y1, x2, y2 = edges.T
    x2, y2 = np.maximum(x2, np.minimum(x1 + 1, len(square))), np.maximum(y2, np.minimum(y1 + 1, len(square)))
    total = integral[y2, x2] - integral[y1, x2] - integral[y2, x1] + integral[y1, x1]
    return np.asarray(total / np.maximum((x2 - x1) * (y2 - y1), 1))


def strong_targets(samples: Sequence[Sample], preprocess: Preprocess) -> AttentionTargets:
    """Every word of a phrase should look at the phrase's own regions (Liu 2017: Flickr30k Entities)."""

    def maps(row: int, caption: int) -> dict[int, Floats | None]:
        sample = samples[row]
        phrases: Iterable[Phrase] = sample.phrases[caption] if caption < len(sample.phrases) else ()
        found: dict[int, Floats | None] = {}
        for phrase in phrases:
            square = paint([(region, 1.0) for region in phrase.regions], sample, preprocess)
            if square is not None:
                found.update(dict.fromkeys(range(phrase.start, phrase.end), square))
        return found

    return AttentionTargets(maps)


def weak_targets(
    samples: Sequence[Sample],
    preprocess: Preprocess,
    nouns: Sequence[Sequence[Sequence[tuple[int, str]]]],
    similarity: Callable[[str, str], float],
    threshold: float,
    scenes: frozenset[str] = frozenset(),
) -> AttentionTargets:
    """A noun should look at the objects whose class means the same (Liu 2017: COCO); scene words may look anywhere.

    `nouns[image][caption]` are (position, lemma) pairs; a class counts where `similarity` passes the threshold.
    """

    def maps(row: int, caption: int) -> dict[int, Floats | None]:
        sample, found = samples[row], dict[int, Floats | None]()
        for position, noun in nouns[row][caption]:
            if noun in scenes:  # first: word vectors would link "kitchen" to a spoon (Liu 2017 Fig. 3)
                found[position] = None
                continue
            near = [(region, similarity(noun, region.label)) for region in sample.regions if region.label]
            square = paint([(region, value) for region, value in near if value >= threshold], sample, preprocess)
            if square is not None:
                found[position] = square
        return found

    return AttentionTargets(maps)


def paint(regions: Sequence[tuple[Region, float]], sample: Sample, preprocess: Preprocess) -> Floats | None:
    """Regions painted with their values, the larger one where they overlap, on the square the model sees.

    None where nothing of them is left after cropping.
    """
    square = np.zeros((RESOLUTION, RESOLUTION))
    width, height = sample.image.width, sample.image.height
    if not width or not height:
        raise DatasetError(f"image {sample.id}: its size is not known; supervised attention needs it")
    for region, value in regions:
        inside = mask_on_square(region, width, height, preprocess)
        square[inside] = np.maximum(square[inside], value)
    return square if square.any() else None
