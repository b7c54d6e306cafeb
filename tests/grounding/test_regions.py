"""Regions of detectors and of features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from captrial.errors import DatasetError, MismatchError
from captrial.grounding.regions import detect_regions, element_regions, labels_of
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.detectors.base import Detection
from captrial.vision.features.visual_features import Features
from grounding.scripted_captioner import IMAGES


class BlackBoxes:
    """A detector that finds whatever is black."""

    name, labels, width = "black boxes", ("dog", "cat"), None

    def __init__(self, wanted: str = "dog") -> None:
        self.wanted, self.seen = wanted, 0

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        self.seen += len(images)
        return [
            [Detection(Box(1.0, 2.0, 30.0, 20.0), self.wanted, 0.5)] if image.getpixel((0, 0)) == (0, 0, 0) else []
            for image in images
        ]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "wanted": self.wanted}


def test_detected_regions_are_kept(tmp_path: Path) -> None:
    for name, colour in (("black", "black"), ("white", "white")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / f"{name}.png")
    samples = [Sample(ImageRef(name, tmp_path / f"{name}.png")) for name in ("black", "white")]
    detector = BlackBoxes()
    found = detect_regions(samples, detector, tmp_path / "regions.json")
    assert [[region.label for region in sample.regions] for sample in found] == [["dog"], []]
    assert detect_regions(samples, detector, tmp_path / "regions.json") == found
    assert detector.seen == 2
    with pytest.raises(MismatchError, match="another detector"):
        detect_regions(samples, BlackBoxes("cat"), tmp_path / "regions.json")
    with pytest.raises(DatasetError, match="image x has no file"):
        detect_regions([Sample(ImageRef("x"))], detector)
    assert labels_of(found) == ["dog"]
    with pytest.raises(DatasetError, match="no image has a region with a label"):
        labels_of(found[1:])


def test_elements_that_are_regions_bring_their_labels() -> None:
    class Store:
        def entry(self, image_id: str) -> dict[str, Any]:
            return {"labels": [None, "dog"]} if image_id == "1" else {}

        def get(self, image_ids: Sequence[str]) -> Features:
            boxes = torch.tensor([[[0.0, 0, 1, 1], [0.5, 0.5, 1, 1]]])
            return Features(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool), boxes)

    found, labels = element_regions([IMAGES[0]], Store())
    assert labels == ["dog"]
    assert found[0].regions == (Region(Box(50.0, 50.0, 100.0, 100.0), "dog"),)
    with pytest.raises(DatasetError, match="have no labels"):
        element_regions([IMAGES[1]], Store())
