"""Where the regions of a study come from: the data set, a detector, or the visual elements of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from captrial.data.images import open_image, size_of
from captrial.errors import DatasetError, MismatchError
from captrial.files import atomic_write
from captrial.progress import track
from captrial.records import Box, Region, Sample
from captrial.vision.detectors.base import Detector

BATCH = 8  # images at once


class LabelledElements(Protocol):
    """A feature store whose elements are regions: it knows their labels."""

    def entry(self, image_id: str) -> dict[str, Any]:
        """The index entry of an image."""
        ...

    def get(self, image_ids: Sequence[str]) -> Any:
        """Features of some images."""
        ...


def labels_of(samples: Sequence[Sample]) -> list[str]:
    """Every label that some region has, by name: the label set of a data set."""
    found = sorted({region.label for sample in samples for region in sample.regions if region.label})
    if not found:
        raise DatasetError(
            "no image has a region with a label, so no noun can be grounded; give boxes with --boxes, or a detector "
            "with --regions (onnx:FILE, detr:MODEL, localiser)"
        )
    return found


def detect_regions(samples: Sequence[Sample], detector: Detector, keep: Path | None = None) -> list[Sample]:
    """The samples with a detector's regions in place of their own; with `keep` (JSON) no image is looked at twice.

    An image in which nothing is found has no regions.
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


def element_regions(samples: Sequence[Sample], store: LabelledElements) -> list[Sample]:
    """The samples with the regions that the features are of, labels included (Cornia 2022: region features)."""
    made = []
    for sample in samples:
        labels = store.entry(sample.id).get("labels")
        if labels is None:
            raise DatasetError("the elements of these features have no labels; they are no regions of a detector")
        width, height = size_of(sample)
        boxes = store.get([sample.id]).boxes[0].double().numpy() * [width, height, width, height]
        regions = [Region(Box(*map(float, box)), label) for box, label in zip(boxes, labels, strict=True) if label]
        made.append(replace(sample, regions=tuple(regions)))
    return made


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
