"""The feature store: features extracted once, kept in one memory-mapped file with an index beside it.

A store is a folder: `store.json` (backbone, preprocessing, widths), `elements.f16` (rows of all images, one after the
other), `boxes.f16` (their relative boxes) and `index.jsonl` (id, rows, labels and scores an image). Rows are written
and synced before their index line, so a killed extraction continues where it was and no reader sees half an image.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from captrial.errors import DatasetError, MismatchError
from captrial.files import atomic_write
from captrial.vision.descriptions import identity
from captrial.vision.features.visual_features import Features, stack_features

HEADER, ELEMENTS, BOXES, INDEX = "store.json", "elements.f16", "boxes.f16", "index.jsonl"


class FeatureStore:
    """Features of images by id, read lazily from memory-mapped files (safe to fork)."""

    def __init__(self, directory: Path | str, vision: Mapping[str, Any] | None = None) -> None:
        """Open a store; with `vision` (see `Backbone.describe`) refuse one that was made in another way."""
        self.directory = Path(directory)
        header = self.directory / HEADER
        if not header.is_file():
            raise DatasetError(f"{self.directory} is no feature store: it has no {HEADER}; make one: captrial features")
        self.vision: dict[str, Any] = orjson.loads(header.read_bytes())
        if vision is not None:
            _check_same(self.directory, self.vision, vision)
        self.entries = {entry["id"]: entry for entry in _read_index(self.directory / INDEX)}
        self._elements = self._map(ELEMENTS, self.width)
        self._boxes = self._map(BOXES, 4)

    @property
    def width(self) -> int:
        """The width of one element."""
        return int(self.vision["width"])

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, image_id: str) -> bool:
        return image_id in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def entry(self, image_id: str) -> dict[str, Any]:
        """The index entry of an image: its rows, and labels and scores where its elements are regions."""
        if image_id not in self.entries:
            raise DatasetError(f"{self.directory} has no features of {image_id!r}; extract them: captrial features")
        return self.entries[image_id]

    def get(self, image_ids: Sequence[str]) -> Features:
        """Features of some images, as one padded batch in float32."""
        return stack_features([self._one(image_id) for image_id in image_ids])

    def _one(self, image_id: str) -> Features:
        entry = self.entry(image_id)
        rows = slice(entry["start"], entry["start"] + entry["rows"])
        elements = torch.from_numpy(self._elements[rows].astype(np.float32)).unsqueeze(0)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool)
        if not entry.get("boxes", True):
            return Features(elements, mask)
        return Features(elements, mask, torch.from_numpy(self._boxes[rows].astype(np.float32)).unsqueeze(0))

    def _map(self, name: str, width: int) -> NDArray[np.float16]:
        path = self.directory / name
        if not path.exists() or path.stat().st_size == 0:
            return np.zeros((0, width), np.float16)
        usable = path.stat().st_size // (2 * width)
        return np.memmap(path, np.float16, "r", shape=(usable, width))


class FeatureWriter:
    """Appends features to a store; opening an unfinished store continues it."""

    def __init__(self, directory: Path | str, vision: Mapping[str, Any]) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        header = self.directory / HEADER
        if header.is_file():
            _check_same(self.directory, orjson.loads(header.read_bytes()), vision)
        else:
            atomic_write(header, orjson.dumps(dict(vision), option=orjson.OPT_INDENT_2))
        entries = _read_index(self.directory / INDEX, repair=True)
        self.done = {entry["id"] for entry in entries}
        self._rows = sum(entry["rows"] for entry in entries)
        self._elements = self._continue(ELEMENTS, int(vision["width"]))
        self._boxes = self._continue(BOXES, 4)
        self._index = (self.directory / INDEX).open("ab")

    def add(self, image_ids: Sequence[str], features: Features, notes: Sequence[Mapping[str, Any]] = ()) -> None:
        """Append a batch; `notes` (labels and scores of regions) go into the index."""
        lines = []
        for number, image_id in enumerate(image_ids):
            valid = features.mask[number]
            elements = features.elements[number][valid].to(torch.float16).cpu().numpy()
            if not np.isfinite(elements).all():
                raise DatasetError(f"features of {image_id!r} are not finite numbers in half precision")
            boxes = np.zeros((len(elements), 4), np.float16)
            if features.boxes is not None:
                boxes = features.boxes[number][valid].to(torch.float16).cpu().numpy()
            self._elements.write(elements.tobytes())
            self._boxes.write(boxes.tobytes())
            note = {**(notes[number] if notes else {}), **({} if features.boxes is not None else {"boxes": False})}
            lines.append({"id": image_id, "start": self._rows, "rows": len(elements), **note})
            self._rows += len(elements)
        for file in (self._elements, self._boxes):
            file.flush()
            os.fsync(file.fileno())
        self._index.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        self._index.flush()
        os.fsync(self._index.fileno())
        self.done.update(image_ids)

    def close(self) -> None:
        """Close the files; everything added is already on disk."""
        for file in (self._elements, self._boxes, self._index):
            file.close()

    def __enter__(self) -> FeatureWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _continue(self, name: str, width: int) -> Any:
        """Open for appending, rows without an index line cut off."""
        file = (self.directory / name).open("ab")
        file.truncate(2 * width * self._rows)
        file.seek(0, os.SEEK_END)
        return file


def _read_index(path: Path, repair: bool = False) -> list[dict[str, Any]]:
    """Index entries; a last line that was cut short by a kill is left out (and cut off where `repair`)."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if repair and len(whole) < len(content):
        atomic_write(path, whole)
    return [orjson.loads(line) for line in whole.splitlines()]


def _check_same(directory: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    stored, wanted = identity(stored), identity(wanted)
    for key in sorted(set(stored) | set(wanted)):
        if stored.get(key) != wanted.get(key):
            raise MismatchError(
                f"{directory} holds features with {key} {stored.get(key)!r}, but {wanted.get(key)!r} is asked for; "
                "use another folder or the same settings"
            )
