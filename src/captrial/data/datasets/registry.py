"""Telling data sets apart by their content, and reading whichever it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captrial.data.datasets.coco import read_boxes, read_coco
from captrial.data.datasets.common import read_json, select_split
from captrial.data.datasets.flickr8k import read_flickr8k
from captrial.data.datasets.flickr30k_entities import read_entities
from captrial.data.datasets.image_folder import read_folder, walk_images
from captrial.data.datasets.image_sequences import BOX_FILES, read_sequences
from captrial.data.datasets.karpathy import read_karpathy
from captrial.data.datasets.webdataset import SHARD_SUFFIXES, read_shards
from captrial.errors import DatasetError
from captrial.records import Sample

_ENOUGH = 1 << 16  # bytes, to see what a text file is
log = logging.getLogger(__name__)

FORMS = {
    "karpathy": "Karpathy JSON (images with sentences)",
    "coco": "COCO annotations (captions or instances)",
    "boxes": 'boxes JSON ({"id": [[x1, y1, x2, y2, "class"], ...]})',
    "flickr8k": "token file (name.jpg#0<TAB>caption)",
    "entities": "Flickr30k Entities (a folder with Sentences and Annotations)",
    "sequences": f"robot sequences (folders of frames with {', '.join(BOX_FILES)})",
    "shards": f"WebDataset shards ({', '.join(SHARD_SUFFIXES)})",
    "folder": "a folder of images (sub-folders: classes)",
    "toyworld": "a toy world (written by `captrial data toyworld`)",
}
"""Every form that `read_dataset` understands, and how it looks."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a path holds: one of `FORMS`, and the file or folder to read."""

    form: str
    path: Path

    def __str__(self) -> str:
        return f"{self.path}: {FORMS[self.form]}"


def read_dataset(
    path: Path | str, *, split: str | None = None, images: Path | str | None = None, form: str | None = None
) -> list[Sample]:
    """Read a data set of any form we know; `form` (a key of `FORMS`) says which where the content does not.

    What was found is logged (`captrial.data.datasets`, level INFO), and is what `detect` returns. `images` is the
    folder of the images where they are not beside the annotations; forms that hold their own images refuse it.
    """
    if form is not None and form not in FORMS:
        raise DatasetError(f"no form {form!r}; there are {', '.join(FORMS)}")
    found = detect(path) if form is None else Found(form, Path(path))
    log.info("reading %s", found)
    if images is not None and found.form not in ("karpathy", "coco", "flickr8k", "entities"):
        raise DatasetError(f"{found}; it takes no image folder")
    samples = _READERS[found.form](found.path, images)
    return select_split(samples, split, found.path)


def _read_toyworld(path: Path) -> list[Sample]:
    from captrial.data.datasets.toyworld import read_toyworld

    return read_toyworld(path)


_READERS: dict[str, Callable[[Path, Any], list[Sample]]] = {
    "karpathy": lambda path, images: read_karpathy(path, images=images),
    "coco": lambda path, images: read_coco(path, images=images),
    "boxes": lambda path, _: read_boxes(path),
    "flickr8k": lambda path, images: read_flickr8k(path, images=images),
    "entities": lambda path, images: read_entities(path, images=images),
    "sequences": lambda path, _: read_sequences(path),
    "shards": lambda path, _: list(read_shards(path)),
    "folder": lambda path, _: list(read_folder(path)),
    "toyworld": lambda path, _: _read_toyworld(path),
}


def detect(path: Path | str) -> Found:
    """Which form a file or folder has, by its content; a `DatasetError` lists the forms where it has none."""
    path = Path(path)
    if path.is_dir():
        return _detect_folder(path)
    if path.name.endswith(SHARD_SUFFIXES) or "{" in path.name:
        return Found("shards", path)
    if not path.is_file():
        raise DatasetError(f"{path}: no such file or folder")
    form = _file_form(path)
    if form is None:
        raise DatasetError(f"{path}: not a data set we know. {_known()}")
    return Found(form, path)


def _detect_folder(folder: Path) -> Found:
    if (folder / "toyworld.json").is_file():
        return Found("toyworld", folder)
    if (folder / "Sentences").is_dir():
        return Found("entities", folder)
    files = sorted(entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))
    if any(entry.name.endswith(SHARD_SUFFIXES) for entry in files):
        return Found("shards", folder)
    if any(next(folder.glob(f"{depth}{name}"), None) for name in BOX_FILES for depth in ("*/", "")):
        return Found("sequences", folder)
    annotations = [(_file_form(entry), entry) for entry in files if entry.suffix in (".json", ".txt", ".token")]
    for form in ("karpathy", "flickr8k", "coco"):  # Karpathy's knows the splits: it goes first
        candidates = [entry for found, entry in annotations if found == form]
        if len(candidates) > 1:
            names = ", ".join(entry.name for entry in candidates)
            raise DatasetError(f"{folder}: several annotation files ({names}); name the one to read")
        if candidates:
            return Found(form, candidates[0])
    if next(walk_images(folder), None) is not None:
        return Found("folder", folder)
    raise DatasetError(f"{folder}: neither annotations nor images that we know. {_known()}")


def _file_form(path: Path) -> str | None:
    with path.open("rb") as stream:
        start = stream.read(_ENOUGH).lstrip(b"\xef\xbb\xbf \t\r\n") if path.suffix != ".json" else b"{"
    if not start.startswith(b"{"):
        key, tab, _ = start.partition(b"\n")[0].partition(b"\t")
        return "flickr8k" if tab and key.rpartition(b"#")[2].strip().isdigit() else None
    try:
        document = read_json(path)
    except DatasetError:
        if path.suffix == ".json":
            raise
        return None
    return _json_form(document)


def _json_form(document: object) -> str | None:
    if not isinstance(document, dict):
        return None
    images = document.get("images")
    if isinstance(images, list):
        if "annotations" in document:
            return "coco"
        return "karpathy" if all(isinstance(one, dict) and "sentences" in one for one in images[:1]) else None
    rows = [row for group in document.values() if isinstance(group, list) for row in group]
    boxes = all(isinstance(group, list) for group in document.values()) and all(isinstance(row, list) for row in rows)
    return "boxes" if document and boxes else None


def _known() -> str:
    return f"Forms understood: {'; '.join(FORMS.values())}"
