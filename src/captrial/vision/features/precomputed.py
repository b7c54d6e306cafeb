"""Features made by another program (bottom-up attention and the like), by image id: lazy, safe to fork and pickle.

`TsvFeatures`, `Hdf5Features` and `NpzFeatures` read the field's three formats as they are; `import_features` copies any
of them into a feature store. A missing feature is an error with the image's id.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from captrial.errors import DatasetError
from captrial.progress import progress_bar
from captrial.vision.descriptions import PRECOMPUTED
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features, stack_features
from captrial.vision.preprocess import Preprocess

Floats = NDArray[np.float32]
BATCH = 64  # images between two writes of the index


@dataclass(frozen=True)
class Stored:
    """The arrays of one image in a file."""

    elements: Floats  # (n, d)
    boxes: Floats | None = None  # (n, 4) x1 y1 x2 y2, in pixels or relative
    size: tuple[int, int] | None = None  # (width, height) of the image
    classes: NDArray[np.int64] | None = None  # (n,) numbers of labels
    scores: Floats | None = None  # (n,)


class PrecomputedFeatures(abc.ABC):
    """Features of images by id; a `FeatureSource` for training and a source for `import_features`.

    Boxes become relative to the image. Where a file has no image sizes, pass `sizes` (id -> (width,
    height)); `boxes=False` leaves boxes out. `labels` names the file's class numbers.
    """

    def __init__(
        self,
        path: Path | str,
        sizes: Mapping[str, tuple[int, int]] | None = None,
        boxes: bool = True,
        labels: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.path, self.name = Path(path), name or Path(path).name
        if not self.path.exists():
            raise DatasetError(f"{path} does not exist; give the features' file or folder")
        self.sizes, self.with_boxes, self.labels = sizes or {}, boxes, labels
        self.open()

    @abc.abstractmethod
    def open(self) -> None:
        """Check the file or folder; called once, at the end of `__init__`."""

    @abc.abstractmethod
    def ids(self) -> Sequence[str]:
        """The images' ids, in the file's order."""

    @abc.abstractmethod
    def read(self, image_id: str) -> Stored:
        """What the file has about one image; `DatasetError` where that is nothing."""

    def get(self, image_ids: Sequence[str]) -> Features:
        """Features of some images, as one padded batch."""
        return stack_features([self._one(image_id) for image_id in image_ids])

    def entry(self, image_id: str) -> dict[str, Any]:
        """Labels and scores of an image's regions, where the file and `labels` have them."""
        stored = self.read(image_id)
        notes: dict[str, Any] = {}
        if stored.classes is not None and self.labels is not None:
            if stored.classes.max(initial=-1) >= len(self.labels) or stored.classes.min(initial=0) < 0:
                raise DatasetError(
                    f"{self.path}: image {image_id} has class {stored.classes.max()}, but there are only "
                    f"{len(self.labels)} labels; give the labels the detector was trained with"
                )
            notes["labels"] = [self.labels[number] for number in stored.classes]
        if stored.scores is not None:
            notes["scores"] = [round(float(score), 4) for score in stored.scores]
        return notes

    @cached_property
    def width(self) -> int:
        """The width of one element, by the first image."""
        if not len(self):
            raise DatasetError(f"{self.path} has no features in it")
        shape = self.read(self.ids()[0]).elements.shape
        if len(shape) != 2 or not shape[1]:
            raise DatasetError(f"{self.path}: image {self.ids()[0]} has features of shape {shape}, not (n, d)")
        return int(shape[1])

    @property
    def vision(self) -> dict[str, Any]:
        """What identifies these features (see `Backbone.describe`): their name, since their origin is unknown."""
        return {
            "backbone": f"{PRECOMPUTED}:{self.name}",
            "source": str(self.path),
            "preprocess": Preprocess().describe(),  # boxes are of the whole image
            "width": self.width,
        }

    def __len__(self) -> int:
        return len(self.ids())

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    @abc.abstractmethod
    def __contains__(self, image_id: object) -> bool: ...

    def missing(self, image_id: str) -> DatasetError:
        """The error for an image that has no features."""
        return DatasetError(f"{self.path} has no features of {image_id!r}; leave the image out, or add them")

    def _one(self, image_id: str) -> Features:
        stored = self.read(image_id)
        if stored.elements.ndim != 2 or stored.elements.shape[1] != self.width or not len(stored.elements):
            shape = stored.elements.shape
            raise DatasetError(f"{self.path}: image {image_id} has features of shape {shape}, not (n, {self.width})")
        if not np.isfinite(stored.elements).all():
            raise DatasetError(f"{self.path}: image {image_id} has features that are not finite numbers")
        elements = torch.from_numpy(stored.elements).unsqueeze(0)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool)
        boxes = self._relative(image_id, stored) if self.with_boxes and stored.boxes is not None else None
        return Features(elements, mask, None if boxes is None else torch.from_numpy(boxes).unsqueeze(0))

    def _relative(self, image_id: str, stored: Stored) -> Floats:
        boxes, size = stored.boxes, stored.size or self.sizes.get(image_id)
        assert boxes is not None
        if boxes.shape != (len(stored.elements), 4) or not np.isfinite(boxes).all():
            count = len(stored.elements)
            raise DatasetError(f"{self.path}: image {image_id} has boxes {boxes.shape} for {count} features")
        if size is not None and min(size) < 1:
            raise DatasetError(f"{self.path}: image {image_id} has a size of {size}; repair the file")
        if boxes.max(initial=0) <= 1 + 1e-4:  # cells of a grid, or a file that has them so: relative already
            return np.clip(boxes, 0, 1)
        if size is not None:
            return np.clip(boxes / np.array([*size, *size], np.float32), 0, 1)
        raise DatasetError(
            f"{self.path}: the boxes of image {image_id} are in pixels, and its size is not known; "
            "give the images (--images), or leave boxes out (?boxes=no); in Python: sizes=... or boxes=False"
        )


def import_features(
    source: PrecomputedFeatures, directory: Path | str, image_ids: Sequence[str] | None = None
) -> FeatureStore:
    """Copy features (of some images, or all) into a feature store; a stopped import continues where it was."""
    with FeatureWriter(directory, source.vision) as writer, progress_bar() as bar:
        wanted = list(image_ids if image_ids is not None else source)
        todo = [image_id for image_id in wanted if image_id not in writer.done]
        task = bar.add_task("importing features", total=len(wanted), completed=len(wanted) - len(todo))
        for start in range(0, len(todo), BATCH):
            part = todo[start : start + BATCH]
            writer.add(part, source.get(part), [source.entry(image_id) for image_id in part])
            bar.advance(task, len(part))
    return FeatureStore(directory, source.vision)
