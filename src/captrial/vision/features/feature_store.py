"""The feature store: features extracted once, kept in one memory-mapped file with an index beside it.

A store is a folder: `store.json` (backbone, preprocessing, widths), `elements.f16` (rows of all images, one after the
other), `boxes.f16` (their relative boxes) and `index.jsonl` (id, rows, labels, scores and a checksum an image).
Rows are written and synced before their index line, so a killed extraction continues where it was and no reader sees
half an image. One process at a time writes. A file that is too short, or rows that do not match the checksum of their
image, are a `DamagedError` for readers and for the next extraction.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from captrial.errors import CaptrialError, DamagedError, DatasetError, MismatchError
from captrial.files import atomic_write
from captrial.folders import (
    FolderVerifier,
    VerifiedFolder,
    check_files,
    lock_folder,
    refuse_foreign_folder,
    write_checked,
)
from captrial.progress import track
from captrial.vision.descriptions import identity
from captrial.vision.features.visual_features import Features, stack_features

HEADER, ELEMENTS, BOXES, INDEX = "store.json", "elements.f16", "boxes.f16", "index.jsonl"
REMAKE = "`captrial features` into a new folder"


class FeatureStore:
    """Features of images by id, read lazily from memory-mapped files (safe to fork)."""

    def __init__(self, directory: Path | str, vision: Mapping[str, Any] | None = None) -> None:
        """Open a store; with `vision` (see `Backbone.describe`) refuse one that was made in another way."""
        self.directory = Path(directory)
        if not (self.directory / HEADER).is_file():
            raise DatasetError(f"{self.directory} is no feature store: it has no {HEADER}; make one: captrial features")
        self.vision: dict[str, Any] = _read_header(self.directory)
        if vision is not None:
            _check_same(self.directory, self.vision, vision)
        lines = _read_index(self.directory)
        rows = _count_rows(self.directory, lines)
        self.entries = {entry["id"]: entry for entry in lines}
        self._checked: set[str] = set()
        self._elements = self._map(ELEMENTS, self.width, rows)
        self._boxes = self._map(BOXES, 4, rows)

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

    def check(self, image_id: str) -> None:
        """Raise a `DamagedError` where the rows of an image do not match its checksum; each is checked once."""
        entry = self.entry(image_id)
        if image_id in self._checked or "sum" not in entry:  # stores of earlier versions have no checksums
            return
        rows = slice(entry["start"], entry["start"] + entry["rows"])
        if _checksum(entry, self._elements[rows].tobytes(), self._boxes[rows].tobytes()) != entry["sum"]:
            problem = f"the features of {image_id!r} do not match their checksum"
            raise DamagedError(self.directory / ELEMENTS, problem, REMAKE)
        self._checked.add(image_id)

    def _one(self, image_id: str) -> Features:
        entry = self.entry(image_id)
        self.check(image_id)
        rows = slice(entry["start"], entry["start"] + entry["rows"])
        elements = torch.from_numpy(self._elements[rows].astype(np.float32)).unsqueeze(0)
        mask = torch.ones(elements.shape[:2], dtype=torch.bool)
        if not entry.get("boxes", True):
            return Features(elements, mask)
        return Features(elements, mask, torch.from_numpy(self._boxes[rows].astype(np.float32)).unsqueeze(0))

    def _map(self, name: str, width: int, rows: int) -> NDArray[np.float16]:
        """The rows of a file that the index lists; a killed extraction may have left more."""
        path = self.directory / name
        _check_length(path, 2 * width * rows)
        if not rows:
            return np.zeros((0, width), np.float16)
        return np.memmap(path, np.float16, "r", shape=(rows, width))


class FeatureWriter:
    """Appends features to a store; opening an unfinished store continues it. The folder is locked until `close`."""

    def __init__(self, directory: Path | str, vision: Mapping[str, Any]) -> None:
        self.directory = Path(directory)
        with ExitStack() as opened:
            opened.enter_context(lock_folder(self.directory, "feature store"))
            if (self.directory / HEADER).is_file():
                _check_same(self.directory, _read_header(self.directory), vision)
            else:
                refuse_foreign_folder(self.directory)
                with write_checked(self.directory) as staging:
                    (staging / HEADER).write_bytes(orjson.dumps(dict(vision), option=orjson.OPT_INDENT_2))
            entries = _read_index(self.directory, repair=True)
            self._rows = _count_rows(self.directory, entries)
            self.done = {entry["id"] for entry in entries}
            self.sources = {entry["id"]: entry.get("image") for entry in entries}
            self._elements = opened.enter_context(self._continue(ELEMENTS, int(vision["width"])))
            self._boxes = opened.enter_context(self._continue(BOXES, 4))
            self._index = opened.enter_context((self.directory / INDEX).open("ab"))
            self._opened = opened.pop_all()

    def add(self, image_ids: Sequence[str], features: Features, notes: Sequence[Mapping[str, Any]] = ()) -> None:
        """Append a batch; `notes` (labels and scores of regions, the `image_source`) go into the index.

        An image that is there already gets its new features: of several lines of an id, the last counts.
        """
        lines = []
        for number, image_id in enumerate(image_ids):
            valid = features.mask[number]
            elements = features.elements[number][valid].to(torch.float16).cpu().numpy()
            if not np.isfinite(elements).all():
                raise DatasetError(f"features of {image_id!r} are not finite numbers in half precision")
            boxes = np.zeros((len(elements), 4), np.float16)
            if features.boxes is not None:
                boxes = features.boxes[number][valid].to(torch.float16).cpu().numpy()
            parts = elements.tobytes(), boxes.tobytes()
            self._elements.write(parts[0])
            self._boxes.write(parts[1])
            note = {**(notes[number] if notes else {}), **({} if features.boxes is not None else {"boxes": False})}
            line = {"id": image_id, "start": self._rows, "rows": len(elements), **note}
            lines.append({**line, "sum": _checksum(line, *parts)})
            self._rows += len(elements)
        for file in (self._elements, self._boxes):
            file.flush()
            os.fsync(file.fileno())
        self._index.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        self._index.flush()
        os.fsync(self._index.fileno())
        self.done.update(image_ids)
        self.sources.update({line["id"]: line.get("image") for line in lines})

    def close(self) -> None:
        """Close the files; everything added is already on disk."""
        self._opened.close()

    def __enter__(self) -> FeatureWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _continue(self, name: str, width: int) -> Any:
        """Open for appending, rows without an index line cut off."""
        _check_length(self.directory / name, 2 * width * self._rows)
        file = (self.directory / name).open("ab")
        file.truncate(2 * width * self._rows)
        file.seek(0, os.SEEK_END)
        return file


def _read_header(directory: Path) -> dict[str, Any]:
    check_files(directory, REMAKE, [HEADER])
    try:
        header = orjson.loads((directory / HEADER).read_bytes())
        if not isinstance(header["width"], int) or header["width"] < 1:
            raise ValueError("its width is no positive number")
        identity(header)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(directory / HEADER, f"cannot be read as the header of a store ({error})", REMAKE) from None
    return dict(header)


def _read_index(directory: Path, repair: bool = False) -> list[dict[str, Any]]:
    """Index entries; a last line that was cut short by a kill is left out (and cut off where `repair`)."""
    path = directory / INDEX
    if not path.exists():
        return []
    try:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        entries = [orjson.loads(line) for line in whole.splitlines()]
    except (OSError, ValueError) as error:
        raise DamagedError(path, f"cannot be read ({error})", REMAKE) from None
    if repair and len(whole) < len(content):
        atomic_write(path, whole)
    return entries


def _count_rows(directory: Path, entries: Sequence[Any]) -> int:
    """The rows of all entries, which follow each other without a gap."""
    rows = 0
    for number, entry in enumerate(entries, 1):
        good = isinstance(entry, dict) and isinstance(entry.get("id"), str)
        if not good or entry.get("start") != rows or type(entry.get("rows")) is not int or entry["rows"] < 0:
            raise DamagedError(directory / INDEX, f"line {number} does not continue the line before", REMAKE)
        rows += entry["rows"]
    return rows


def _check_length(path: Path, needed: int) -> None:
    size = path.stat().st_size if path.is_file() else 0
    if size < needed:
        raise DamagedError(path, f"has {size} bytes, the index lists {needed}", REMAKE)


def _checksum(entry: Mapping[str, Any], elements: bytes, boxes: bytes) -> str:
    """A checksum of an image's index line and rows."""
    line = orjson.dumps({name: value for name, value in entry.items() if name != "sum"}, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.blake2b(line, digest_size=8)
    digest.update(elements)
    digest.update(boxes)
    return digest.hexdigest()


def verify_store(directory: Path | str) -> VerifiedFolder:
    """Check the files of a store and the features of every image; problems are listed, not raised."""
    try:
        store = FeatureStore(directory)
    except CaptrialError as error:
        return VerifiedFolder(STORE.name, 4, (str(error),))
    problems = []
    for image_id in track(store, "verifying features", len(store)):
        try:
            store.check(image_id)
        except CaptrialError as error:
            problems.append(str(error))
    return VerifiedFolder(STORE.name, 4, tuple(problems))


STORE = FolderVerifier("feature store", lambda folder: (folder / HEADER).is_file(), verify_store)


def _check_same(directory: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    stored, wanted = identity(stored), identity(wanted)
    for key in sorted(set(stored) | set(wanted)):
        if stored.get(key) != wanted.get(key):
            raise MismatchError(
                f"{directory} holds features with {key} {stored.get(key)!r}, but {wanted.get(key)!r} is asked for; "
                "use another folder or the same settings"
            )
