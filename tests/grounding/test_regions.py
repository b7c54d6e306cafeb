"""Regions of detectors and of features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


def test_regions_are_written_once_and_a_cut_line_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line an image, so what is written grows with the images, not with their square."""
    Image.new("RGB", (40, 30), "black").save(tmp_path / "black.png")
    samples = [Sample(ImageRef(f"image {number}", tmp_path / "black.png")) for number in range(20)]
    keep = tmp_path / "regions.jsonl"
    sizes = []

    def tracked(steps: Iterable[int], _: str) -> Iterator[int]:
        for step in steps:
            sizes.append(size(keep))
            yield step

    monkeypatch.setattr("captrial.grounding.regions.track", tracked)
    found = detect_regions(samples, BlackBoxes(), keep)
    lines = keep.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + len(samples)
    starts = [len(b"".join(lines[: 1 + done])) for done in range(len(samples))]
    assert sizes == starts  # nothing is written again
    keep.write_bytes(keep.read_bytes()[:-10])  # killed in the last line
    detector = BlackBoxes()
    assert detect_regions(samples, detector, keep) == found
    assert detector.seen == 1
    assert keep.read_bytes().splitlines(keepends=True) == lines


def bytes_written() -> int:
    """By this process so far, files and pipes alike."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's counts of bytes")
def test_twice_the_images_write_twice_the_bytes(tmp_path: Path) -> None:
    """As the system counts them, so what is written over again counts as well."""
    Image.new("RGB", (40, 30), "black").save(tmp_path / "black.png")
    written = []
    for count in (100, 200, 400):
        samples = [Sample(ImageRef(f"image {number:03}", tmp_path / "black.png")) for number in range(count)]
        before = bytes_written()
        detect_regions(samples, BlackBoxes(), tmp_path / f"{count}.jsonl")
        written.append(bytes_written() - before)
    assert written[0] >= (tmp_path / "100.jsonl").stat().st_size
    assert written[1] / written[0] == pytest.approx(2, rel=0.1)
    assert written[2] / written[1] == pytest.approx(2, rel=0.1)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_detected_regions_are_kept(tmp_path: Path) -> None:
    for name, colour in (("black", "black"), ("white", "white")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / f"{name}.png")
    samples = [Sample(ImageRef(name, tmp_path / f"{name}.png")) for name in ("black", "white")]
    detector = BlackBoxes()
    found = detect_regions(samples, detector, tmp_path / "regions.jsonl")
    assert [[region.label for region in sample.regions] for sample in found] == [["dog"], []]
    assert detect_regions(samples, detector, tmp_path / "regions.jsonl") == found
    assert detector.seen == 2
    with pytest.raises(MismatchError, match="another detector"):
        detect_regions(samples, BlackBoxes("cat"), tmp_path / "regions.jsonl")
    with pytest.raises(DatasetError, match="image x has no file"):
        detect_regions([Sample(ImageRef("x"))], detector)
    assert labels_of(found) == ["dog"]
    with pytest.raises(DatasetError, match="no image has a region with a label"):
        labels_of(found[1:])


def test_elements_that_are_regions_bring_their_labels() -> None:
    class Store:
        def __iter__(self) -> Iterator[str]:
            return iter(["1", "2", "other"])

        def entry(self, image_id: str) -> dict[str, Any]:
            return {"1": {"labels": [None, "dog"]}, "other": {"labels": ["cat"]}}.get(image_id, {})

        def get(self, image_ids: Sequence[str]) -> Features:
            boxes = torch.tensor([[[0.0, 0, 1, 1], [0.5, 0.5, 1, 1]]])
            return Features(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool), boxes)

    found, labels = element_regions([IMAGES[0]], Store())
    assert labels == ["cat", "dog"]  # of all images of the store, however few are looked at
    assert found[0].regions == (Region(Box(50.0, 50.0, 100.0, 100.0), "dog"),)
    with pytest.raises(DatasetError, match="have no labels"):
        element_regions([IMAGES[1]], Store())
