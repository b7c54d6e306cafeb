"""The regions that nouns are grounded on: of the data set, of a detector, or the visual elements of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import orjson
from PIL import Image

from captrial.attribution.attribution import grid_regions
from captrial.data.images import open_image, size_of, with_size
from captrial.errors import DatasetError, InputError, MismatchError
from captrial.files import atomic_write
from captrial.progress import track
from captrial.records import Box, Region, Sample
from captrial.vision.detectors.base import Detector
from captrial.vision.registry import is_detector, load_detector

BATCH = 8  # images at a time
DATA, ELEMENTS, GRID, NO_REGIONS = "data", "elements", "grid", "none"  # sources that are no detector
CELLS = 7  # a side of the grid

RegionSource = str | Detector | Sequence[Region]


class LabelledElements(Protocol):
    """A feature store whose elements are regions with labels."""

    def entry(self, image_id: str) -> dict[str, Any]:
        """The index entry of an image."""
        ...

    def get(self, image_ids: Sequence[str]) -> Any:
        """Features of some images."""
        ...


def check_regions(source: str, *others: str) -> None:
    """Raise `InputError`, before any work is done, if a source of regions is neither a detector nor one of `others`."""
    if source not in others and not is_detector(source):
        known = ", ".join(("localiser", "onnx:FILE", "detr:MODEL", *others))
        raise InputError(f"--regions {source}: there are {known} (see docs/vision.md)")


# Of one image ---------------------------------------------------------------------------------------------------------


def image_regions(source: RegionSource, image: Image.Image) -> tuple[list[Region], list[str]]:
    """Regions of an image, in pixels, and every label that they can have.

    `source` is a detector or its name, `grid` (7 x 7 cells without labels), `none`, or the regions themselves.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return list(source), sorted({region.label for region in source if region.label})
    if source == NO_REGIONS:
        return [], []
    if source == GRID:
        return grid_regions(CELLS, CELLS, *image.size), []
    detector = load_detector(source) if isinstance(source, str) else source
    return list(detector.detect([image])[0]), list(detector.labels)


# Of a data set --------------------------------------------------------------------------------------------------------


def dataset_regions(
    samples: Sequence[Sample], labels: Sequence[str], source: str, keep: Path
) -> tuple[list[Sample], list[str]]:
    """Samples with the regions to ground on, and all labels that these can have.

    `source` is `data`, with the `labels` of the data set, or the name of a detector, whose regions are kept in the
    folder `keep`.
    """
    if source == DATA:
        if not labels:
            labels_of(samples)  # raises `DatasetError` with the options to give
        return [with_size(sample) for sample in samples], list(labels)
    detector = load_detector(source)
    found = detect_regions(samples, detector, keep / "regions.json")
    return [with_size(sample) for sample in found], list(detector.labels)


def labels_of(samples: Sequence[Sample]) -> list[str]:
    """The labels of all regions, sorted: the label set of a data set. `DatasetError` if there are none."""
    found = sorted({region.label for sample in samples for region in sample.regions if region.label})
    if not found:
        raise DatasetError(
            "no image has a region with a label, so no noun can be grounded; give boxes with --boxes, or a detector "
            "with --regions (onnx:FILE, detr:MODEL, localiser)"
        )
    return found


def detect_regions(samples: Sequence[Sample], detector: Detector, keep: Path | None = None) -> list[Sample]:
    """The samples with a detector's regions in place of their own.

    Regions are written to the file `keep` (JSON); images that it has are not detected again. An image in which nothing
    is found has no regions.
    """
    found = _read(keep, detector.describe())
    todo = [sample for sample in samples if sample.id not in found]
    for start in track(range(0, len(todo), BATCH), f"regions by {detector.name}"):
        part = todo[start : start + BATCH]
        images = [open_image(_path(sample)) for sample in part]
        for sample, regions in zip(part, detector.detect(images), strict=True):
            found[sample.id] = [[*region.box, region.label, region.score] for region in regions if region.label]
        if keep is not None:
            document = {"made with": detector.describe(), "regions": found}
            atomic_write(keep, orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY))
    return [replace(sample, regions=tuple(_regions(found[sample.id]))) for sample in samples]


def element_regions(samples: Sequence[Sample], store: LabelledElements) -> tuple[list[Sample], list[str]]:
    """The samples with the regions that the features are of (Cornia 2022: region features), and all their labels."""
    found = []
    for sample in map(with_size, samples):
        labels = store.entry(sample.id).get("labels")
        if labels is None:
            raise DatasetError("the elements of these features have no labels; they are no regions of a detector")
        width, height = size_of(sample)
        boxes = store.get([sample.id]).boxes[0].double().numpy() * [width, height, width, height]
        regions = [Region(Box(*map(float, box)), label) for box, label in zip(boxes, labels, strict=True) if label]
        found.append(replace(sample, regions=tuple(regions)))
    return found, labels_of(found)


def _path(sample: Sample) -> Path:
    if sample.image.path is None:
        raise DatasetError(f"image {sample.id} has no file to detect regions in; give the folder with --images")
    return sample.image.path


def _regions(rows: Sequence[Sequence[Any]]) -> list[Region]:
    return [Region(Box(*row[:4]), str(row[4]), float(row[5])) for row in rows]


def _read(path: Path | None, description: Mapping[str, Any]) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    document = orjson.loads(path.read_bytes())
    if document["made with"] != orjson.loads(orjson.dumps(description, option=orjson.OPT_SERIALIZE_NUMPY)):
        raise MismatchError(f"{path} holds regions of another detector; choose another --out")
    found: dict[str, Any] = document["regions"]
    return found
