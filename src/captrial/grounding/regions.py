"""The regions that nouns are grounded on: of the data set, of a detector, or the visual elements of the features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson
from PIL import Image

from captrial.attribution.attribution import grid_regions
from captrial.data.datasets.samples import replace_regions
from captrial.data.images import open_image
from captrial.data.sample_sizes import size_of, with_size
from captrial.errors import CaptrialError, DamagedError, DatasetError, InputError, MismatchError
from captrial.files import atomic_write
from captrial.grounding.presence import NOUN_ODDS, absence_curve
from captrial.progress import track
from captrial.records import Box, Region, Sample
from captrial.vision.detectors.base import Detection, Detector, NounDetector
from captrial.vision.detectors.noun_presence import NounCalibration
from captrial.vision.registry import detector_usages, is_detector, load_detector, restore_detector

DATA, ELEMENTS, GRID, NO_REGIONS = "data", "elements", "grid", "none"  # sources that are no detector
CELLS = 7  # a side of the grid

RegionSource = str | Detector | Sequence[Region]


class LabelledElements(Protocol):
    """A feature store whose elements are regions with labels."""

    def __iter__(self) -> Iterator[str]:
        """The ids of all images."""
        ...

    def entry(self, image_id: str) -> dict[str, Any]:
        """The index entry of an image."""
        ...

    def get(self, image_ids: Sequence[str]) -> Any:
        """Features of some images."""
        ...


def check_regions(source: str, *others: str) -> None:
    """Raise `InputError`, before any work is done, if a source of regions is neither a detector nor one of `others`."""
    if source not in others and not is_detector(source):
        raise InputError(f"--regions {source}: there are {detector_usages(*others)} (see docs/vision.md)")


# Of one image ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageRegions:
    """Regions of an image in pixels, every label that they can have, and log-odds of nouns where those are known."""

    regions: list[Region]
    labels: list[str]
    odds: Mapping[str, float] | None = None
    calibration: NounCalibration | None = None  # of the detector that made them: what the log-odds mean, error rates
    detector: str | None = None  # its name


def image_regions(source: RegionSource, image: Image.Image) -> ImageRegions:
    """The regions of an image.

    `source` is a detector or its name, `grid` (7 x 7 cells without labels), `none`, or the regions themselves.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return ImageRegions(list(source), sorted({region.label for region in source if region.label}))
    if source == NO_REGIONS:
        return ImageRegions([], [])
    if source == GRID:
        return ImageRegions(grid_regions(CELLS, CELLS, *image.size), [])
    detector = load_detector(source) if isinstance(source, str) else source
    found, odds = detect_nouns(detector, image)
    return ImageRegions(list(found), list(detector.labels), odds, calibration_of(detector), detector.name)


def detect_nouns(detector: Detector, image: Image.Image) -> tuple[list[Detection], dict[str, float] | None]:
    """Regions, and log-odds of nouns where the detector tells them."""
    if isinstance(detector, NounDetector):
        return detector.detect_nouns(image)
    return detector.detect([image])[0], None


def calibration_of(detector: Detector) -> NounCalibration | None:
    """What the detector's log-odds of nouns mean; None where it has none."""
    return detector.noun_calibration if isinstance(detector, NounDetector) else None


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
    found = detect_regions(samples, detector, keep / "regions.jsonl")
    return [with_size(sample) for sample in found], list(detector.labels)


def labels_of(samples: Sequence[Sample]) -> list[str]:
    """The labels of all regions, sorted: the label set of a data set. `DatasetError` if there are none."""
    found = sorted({region.label for sample in samples for region in sample.regions if region.label})
    if not found:
        raise DatasetError(
            "no image has a region with a label, so no noun can be grounded; give boxes with --boxes, or a detector "
            f"with --regions ({detector_usages()})"
        )
    return found


def detect_regions(samples: Sequence[Sample], detector: Detector, keep: Path | None = None) -> list[Sample]:
    """The samples with a detector's regions in place of their own.

    Regions are appended to the file `keep`, JSON lines: how they and the log-odds of nouns were made, then an image a
    line. Images that it has are not detected again; a line that a kill cut short is dropped. An image in which nothing
    is found has no regions.
    """
    calibration = calibration_of(detector)
    found = _read(keep, {**detector.describe(), NOUN_ODDS: calibration and calibration.identity})
    todo = [sample for sample in samples if sample.id not in found]
    for sample in track(todo, f"regions by {detector.name}"):
        regions, odds = detect_nouns(detector, open_image(_path(sample)))
        rows = [[*region.box, region.label, region.score] for region in regions if region.label]
        rounded = odds and {noun: round(value, 3) for noun, value in odds.items()}
        found[sample.id] = {"regions": rows, NOUN_ODDS: rounded}
        if keep is not None:
            with keep.open("ab") as file:
                file.write(_line([sample.id, found[sample.id]]))
    return [_with_regions(sample, found[sample.id], calibration) for sample in samples]


def element_regions(samples: Sequence[Sample], store: LabelledElements) -> tuple[list[Sample], list[str]]:
    """The samples with the regions that the features are of (Cornia 2022: region features), and all their labels."""
    found = []
    for sample in map(with_size, samples):
        entry = store.entry(sample.id)
        labels = entry.get("labels")
        if labels is None:
            raise DatasetError("the elements of these features have no labels; they are no regions of a detector")
        width, height = size_of(sample)
        boxes = store.get([sample.id]).boxes[0].double().numpy() * [width, height, width, height]
        rows = zip(boxes, labels, entry.get("scores") or [1.0] * len(labels), strict=True)
        regions = [Region(Box(*map(float, box)), label, float(score)) for box, label, score in rows if label]
        found.append(replace_regions(sample, regions))
    labels_of(found)  # raises `DatasetError` if there is none
    return found, element_labels(store)


def element_labels(store: LabelledElements) -> list[str]:
    """All labels that the elements can have: a limit on images must not change which nouns can be checked.

    Those of the detector that made the features, where it can be loaded; else those of all images of the store.
    """
    description = getattr(store, "vision", {}).get("detector")
    if isinstance(description, Mapping):
        with suppress(CaptrialError):  # its weights are elsewhere now
            return sorted(restore_detector(description).labels)
    return sorted({label for image in store for label in store.entry(image).get("labels") or () if label})


def _path(sample: Sample) -> Path:
    if sample.image.path is None:
        raise DatasetError(f"image {sample.id} has no file to detect regions in; give the folder with --images")
    return sample.image.path


def _with_regions(sample: Sample, found: Mapping[str, Any], calibration: NounCalibration | None) -> Sample:
    odds = found[NOUN_ODDS]
    extra = None if odds is None or calibration is None else {NOUN_ODDS: odds, **absence_curve(calibration)}
    return replace_regions(sample, _regions(found), extra)


def _regions(found: Mapping[str, Any]) -> tuple[Region, ...]:
    return tuple(Region(Box(*map(float, row[:4])), str(row[4]), float(row[5])) for row in found["regions"])


def _read(path: Path | None, description: Mapping[str, Any]) -> dict[str, Any]:
    """The regions of a file by image; a new file begins with how they are made."""
    if path is None:
        return {}
    heading = _line({"made with": description})
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, heading)
        return {}
    try:
        lines = path.read_bytes().split(b"\n")
        made_with = orjson.loads(lines[0])
        found = {str(image): kept for image, kept in map(orjson.loads, lines[1:-1])}
        for kept in found.values():
            _ = _regions(kept), kept[NOUN_ODDS]  # an error where there are none
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DamagedError(path, f"is not a list of regions ({error})", "the same command after removing it") from None
    if made_with != orjson.loads(heading):
        raise MismatchError(f"{path} holds regions of another detector; choose another --out")
    if lines[-1]:  # cut short by a kill
        atomic_write(path, b"".join(line + b"\n" for line in lines[:-1]))
    return found


def _line(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
