"""Features that were made elsewhere (bottom-up attention and its like), by picture id: lazy, safe to fork and pickle.

`TsvFeatures`, `Hdf5Features` and `NpzFeatures` read the field's three formats as they are; `import_features` copies any
of them into a feature store. A feature that is not there is an error with the picture's id, never a guess.
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
from captrial.vision.features import Features, stack_features
from captrial.vision.preprocess import Preprocess
from captrial.vision.restoring import PRECOMPUTED
from captrial.vision.store import FeatureStore, FeatureWriter

Floats = NDArray[np.float32]
BATCH = 64  # pictures between two writes of the index


@dataclass(frozen=True)
class Stored:
    """What a file has about one picture."""

    elements: Floats  # (n, d)
    boxes: Floats | None = None  # (n, 4) x1 y1 x2 y2, in pixels or relative
    size: tuple[int, int] | None = None  # (width, height) of the picture
    classes: NDArray[np.int64] | None = None  # (n,) numbers of labels
    scores: Floats | None = None  # (n,)


class PrecomputedFeatures(abc.ABC):
    """Features of pictures by id; a `FeatureSource` for training and a source for `import_features`.

    Boxes become relative to the picture. Where a file does not say how large pictures are, `sizes` must (id ->
    (width, height)); `boxes=False` does without boxes. `labels` names the file's class numbers.
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

    @abc.abstractmethod
    def ids(self) -> Sequence[str]:
        """The pictures' ids, in the file's order."""

    @abc.abstractmethod
    def read(self, picture_id: str) -> Stored:
        """What the file has about one picture; `DatasetError` where that is nothing."""

    def get(self, picture_ids: Sequence[str]) -> Features:
        """Features of some pictures, as one padded batch."""
        return stack_features([self._one(picture_id) for picture_id in picture_ids])

    def entry(self, picture_id: str) -> dict[str, Any]:
        """Labels and scores of a picture's regions, where the file and `labels` have them."""
        stored = self.read(picture_id)
        notes: dict[str, Any] = {}
        if stored.classes is not None and self.labels is not None:
            if stored.classes.max(initial=-1) >= len(self.labels):
                raise DatasetError(
                    f"{self.path}: picture {picture_id} has class {stored.classes.max()}, but there are only "
                    f"{len(self.labels)} labels; give the labels the detector was trained with"
                )
            notes["labels"] = [self.labels[number] for number in stored.classes]
        if stored.scores is not None:
            notes["scores"] = [round(float(score), 4) for score in stored.scores]
        return notes

    @cached_property
    def width(self) -> int:
        """The width of one element, by the first picture."""
        if not len(self):
            raise DatasetError(f"{self.path} has no features in it")
        return int(self.read(self.ids()[0]).elements.shape[-1])

    @property
    def vision(self) -> dict[str, Any]:
        """What identifies these features (see `Backbone.describe`): a name, for nobody knows how they were made."""
        return {
            "backbone": f"{PRECOMPUTED}:{self.name}",
            "source": str(self.path),
            "preprocess": Preprocess().describe(),  # boxes are of the whole picture
            "width": self.width,
        }

    def __len__(self) -> int:
        return len(self.ids())

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    @abc.abstractmethod
    def __contains__(self, picture_id: object) -> bool: ...

    def missing(self, picture_id: str) -> DatasetError:
        """The error for a picture that has no features."""
        return DatasetError(f"{self.path} has no features of {picture_id!r}; leave the picture out, or add them")

    def _one(self, picture_id: str) -> Features:
        stored = self.read(picture_id)
        if stored.elements.ndim != 2 or stored.elements.shape[1] != self.width or not len(stored.elements):
            shape = stored.elements.shape
            raise DatasetError(
                f"{self.path}: picture {picture_id} has features of shape {shape}, not (n, {self.width})"
            )
        if not np.isfinite(stored.elements).all():
            raise DatasetError(f"{self.path}: picture {picture_id} has features that are not finite numbers")
        elements = torch.from_numpy(stored.elements).unsqueeze(0)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool)
        boxes = self._relative(picture_id, stored) if self.with_boxes and stored.boxes is not None else None
        return Features(elements, mask, None if boxes is None else torch.from_numpy(boxes).unsqueeze(0))

    def _relative(self, picture_id: str, stored: Stored) -> Floats:
        boxes, size = stored.boxes, stored.size or self.sizes.get(picture_id)
        assert boxes is not None
        if boxes.shape != (len(stored.elements), 4):
            count = len(stored.elements)
            raise DatasetError(f"{self.path}: picture {picture_id} has boxes {boxes.shape} for {count} features")
        if size is not None:
            return np.clip(boxes / np.array([*size, *size], np.float32), 0, 1)
        if boxes.max() <= 1:
            return boxes
        raise DatasetError(
            f"{self.path}: the boxes of picture {picture_id} are in pixels, and nothing says how large it is; "
            "say where the pictures are (--images), or do without (?boxes=no); in Python: sizes=... or boxes=False"
        )


def import_features(
    source: PrecomputedFeatures, directory: Path | str, picture_ids: Sequence[str] | None = None
) -> FeatureStore:
    """Copy features (of some pictures, or all) into a feature store; a stopped import continues where it was."""
    with FeatureWriter(directory, source.vision) as writer, progress_bar() as bar:
        wanted = list(picture_ids if picture_ids is not None else source)
        todo = [picture_id for picture_id in wanted if picture_id not in writer.done]
        task = bar.add_task("importing features", total=len(wanted), completed=len(wanted) - len(todo))
        for start in range(0, len(todo), BATCH):
            part = todo[start : start + BATCH]
            writer.add(part, source.get(part), [source.entry(picture_id) for picture_id in part])
            bar.advance(task, len(part))
    return FeatureStore(directory, source.vision)
