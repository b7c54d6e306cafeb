"""Detectors and the backbone that turns their regions into visual elements.

    detector.detect(images) -> [[Detection(box, label, score, feature?, attributes), ...], ...]
    RegionBackbone(detector, grid).extract(images) -> Features

A region that the detector has no feature for gets one pooled from the grid; where that is not possible it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from captrial.errors import InputError, MismatchError
from captrial.records import Box, Region
from captrial.vision.backbones.base import Backbone
from captrial.vision.boxes import pool_cells, relative_boxes
from captrial.vision.detectors.noun_presence import NounCalibration
from captrial.vision.features.visual_features import Features, stack_features
from captrial.vision.preprocess import Preprocess

MOST_REGIONS = 36  # as many as the fixed-number bottom-up features have


@dataclass(frozen=True, slots=True)
class Detection(Region):
    """A region as a detector gives it: box in pixels of the image, label, score; feature where it has one."""

    feature: Tensor | None = field(default=None, compare=False, repr=False)  # (d,)
    attributes: tuple[str, ...] = ()  # adjectives: "red", "large"


@runtime_checkable
class Detector(Protocol):
    """Finds labelled regions in images."""

    name: str

    @property
    def labels(self) -> Sequence[str]:
        """Every label it can give."""
        ...

    @property
    def width(self) -> int | None:
        """The width of the features it gives; None where it gives none."""
        ...

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions of each image, best first, boxes in its pixels; may find none."""
        ...

    def describe(self) -> dict[str, Any]:
        """What identifies its regions: plain values, kept in feature stores and checkpoints."""
        ...


@runtime_checkable
class GridDetector(Detector, Protocol):
    """A detector on top of a grid backbone, which it can share with the pooling of features."""

    grid: Backbone

    def detect_on(
        self, features: Features, sizes: Sequence[tuple[int, int]], images: Sequence[Image.Image] | None = None
    ) -> list[list[Detection]]:
        """The regions on grid features of images of these (width, height); `images` where it needs them, too."""
        ...


@runtime_checkable
class NounDetector(Detector, Protocol):
    """A detector that also tells which nouns are in an image at all, wherever they are."""

    def detect_nouns(self, image: Image.Image) -> tuple[list[Detection], dict[str, float] | None]:
        """The regions of an image, and log-odds of nouns; None where these were not learnt."""
        ...

    @property
    def noun_calibration(self) -> NounCalibration | None:
        """What the log-odds mean, and how often verdicts by them were wrong; None where they were not learnt."""
        ...


class RegionBackbone(Backbone):
    """A detector's regions as visual elements, with features of its own or pooled from a grid backbone.

    At most `most` regions per image, best first. An image in which nothing is found is one region without a label:
    the whole of it. With `whole` every image has that region, before the others.
    """

    def __init__(
        self, detector: Detector, grid: Backbone | None = None, most: int = MOST_REGIONS, whole: bool = False
    ) -> None:
        super().__init__()
        if grid is None and isinstance(detector, GridDetector):
            grid = detector.grid
        if grid is None and detector.width is None:
            raise InputError(f"{detector.name} gives no features; pass the grid backbone to pool them from")
        if grid is not None:
            require_whole(grid)
        self.detector, self.most, self.whole = detector, most, whole
        self.grid = None if detector.width is not None else grid
        self.name = detector.name if self.grid is None else f"{detector.name}+{self.grid.name}"
        self.width = detector.width if self.grid is None else self.grid.width  # type: ignore[assignment]
        self.preprocess = Preprocess() if grid is None else grid.preprocess  # boxes are of the whole image

    def elements(self, pixels: Tensor) -> NoReturn:
        """Not for regions: they are found in images. See `extract` and, for gradients, `pool`."""
        raise InputError("regions are found in images, not in normalised pixels: use extract(images), or pool(...)")

    def cells(self) -> NoReturn:
        """Not for regions: every image has its own boxes (`Features.boxes`)."""
        raise InputError("regions have no fixed cells: every image has its own boxes")

    @torch.no_grad()
    def extract(self, images: Sequence[Image.Image]) -> Features:
        """Elements, mask and relative boxes of the images' regions."""
        return pack_regions(self.regions(images), [image.size for image in images])

    @torch.no_grad()
    def regions(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions behind `extract`, in its order, each with its feature; for labels, scores and attributes."""
        sizes = [image.size for image in images]
        if self.grid is None:
            return self._chosen(self.detector.detect(images), sizes)
        features = self.grid.extract(images)
        if isinstance(self.detector, GridDetector) and self.detector.grid is self.grid:
            return self.regions_on(features, sizes, images)  # the grid runs once for both
        return pool_regions(self.grid, features, self._chosen(self.detector.detect(images), sizes), sizes)

    @torch.no_grad()
    def regions_on(
        self, features: Features, sizes: Sequence[tuple[int, int]], images: Sequence[Image.Image] | None = None
    ) -> list[list[Detection]]:
        """The same from grid features of a store, where the detector needs nothing else."""
        if not isinstance(self.detector, GridDetector) or self.detector.grid is not self.grid:
            raise InputError(f"{self.detector.name} reads images, not the grid that features are pooled from")
        assert self.grid is not None
        return pool_regions(
            self.grid, features, self._chosen(self.detector.detect_on(features, sizes, images), sizes), sizes
        )

    def pool(self, pixels: Tensor, boxes: Tensor) -> Tensor:
        """Features (b, k, width) of relative boxes (b, k, 4) on normalised images; differentiable in the pixels."""
        if self.grid is None:
            raise InputError(f"{self.name} has features of its own: there is no grid to pool from")
        elements = self.grid.elements(pixels)
        return pool_cells(elements, self.grid.cells().to(elements), boxes.to(elements))

    def describe(self) -> dict[str, Any]:
        """Detector, grid and how many regions; see `Backbone.describe`."""
        grid = None if self.grid is None else self.grid.describe()
        choice = {"most": self.most, "whole": self.whole}
        return {**super().describe(), "detector": self.detector.describe(), "grid": grid, "regions": choice}

    def _chosen(self, found: Sequence[Sequence[Detection]], sizes: Sequence[tuple[int, int]]) -> list[list[Detection]]:
        if len(found) != len(sizes):
            raise MismatchError(f"{self.detector.name} gave regions of {len(found)} images for {len(sizes)}")
        return [self._choose(each, size) for each, size in zip(found, sizes, strict=True)]

    def _choose(self, found: Sequence[Detection], size: tuple[int, int]) -> list[Detection]:
        """The best regions, by score; equal scores keep the detector's order."""
        best = sorted(found, key=lambda region: -region.score)[: self.most - self.whole]
        if best and not self.whole:
            return best
        if self.grid is None:
            raise InputError(
                f"{self.detector.name} found nothing in an image of {size[0]} x {size[1]} pixels and no "
                "grid backbone is there for the whole image; lower the detector's threshold"
            )
        return [Detection(Box(0, 0, *size), None, 0.0), *best]


def require_whole(grid: Backbone) -> None:
    """An error where a grid does not show all of an image."""
    if grid.preprocess.mode != "stretch":
        raise InputError("regions are pooled from the whole image; use a grid backbone with mode=stretch")


def pool_regions(
    grid: Backbone, features: Features, found: Sequence[Sequence[Detection]], sizes: Sequence[tuple[int, int]]
) -> list[list[Detection]]:
    """The regions `found` in images of these (width, height), each with a feature pooled from those of the `grid`."""
    boxes = [box_tensor(each, size) for each, size in zip(found, sizes, strict=True)]
    padded = torch.nn.utils.rnn.pad_sequence(boxes, batch_first=True)
    padded[padded.sum(-1) == 0] = torch.tensor([0.0, 0.0, 1.0, 1.0])  # padding: pooled, then left out
    pooled = pool_cells(features.elements, grid.cells().to(features.elements), padded.to(features.elements)).cpu()
    return [
        [replace(region, feature=feature) for region, feature in zip(each, features, strict=False)]
        for each, features in zip(found, pooled, strict=True)
    ]


def pack_regions(regions: Sequence[Sequence[Detection]], sizes: Sequence[tuple[int, int]]) -> Features:
    """Regions of images of these (width, height) as one padded batch; a region without a feature is an error."""
    packed = []
    for number, (each, size) in enumerate(zip(regions, sizes, strict=True)):
        features = [region.feature for region in each if region.feature is not None]
        if len(features) != len(each) or not each:
            missing = f"{len(each) - len(features)} of {len(each)} regions" if each else "any region (there is none)"
            raise InputError(f"image {number} of the batch: no feature of {missing}")
        elements = torch.stack(features).float().unsqueeze(0)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool)
        packed.append(Features(elements, mask, box_tensor(each, size).unsqueeze(0)))
    return stack_features(packed)


def box_tensor(regions: Sequence[Region], size: tuple[int, int]) -> Tensor:
    """`relative_boxes` (k, 4) as a tensor of single precision."""
    return torch.from_numpy(relative_boxes(regions, size, np.float32))


def region_notes(regions: Sequence[Sequence[Detection]]) -> list[dict[str, Any]]:
    """What a feature store keeps about regions beside features and boxes: labels, scores, attributes."""
    return [
        {
            "labels": [region.label for region in each],
            "scores": [round(region.score, 4) for region in each],
            "attributes": [list(region.attributes) for region in each],
        }
        for each in regions
    ]
