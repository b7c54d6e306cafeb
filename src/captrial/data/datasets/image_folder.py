"""Folders of images; the first sub-folder of an image is its class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from captrial.data.datasets.base import DatasetReader, Probe, natural_key
from captrial.data.images import IMAGE_SUFFIXES, image_format
from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample


def read_folder(root: Path | str) -> Iterator[Sample]:
    """Yield all images below a folder in natural order; ids are paths relative to it, with `/`.

    The first sub-folder on the way to an image is its label; images directly in the folder have none. A file is an
    image by its suffix or, with another suffix, by its first bytes. Names that begin with a dot are skipped. Links to
    folders are followed, each folder once.
    """
    root = Path(root)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such folder")
    for path in walk_images(root):
        relative = path.relative_to(root)
        label = relative.parts[0] if len(relative.parts) > 1 else None
        yield Sample(ImageRef(relative.as_posix(), path, label=label))


def walk_images(root: Path) -> Iterator[Path]:
    """The image files below a folder: files before sub-folders, both in natural order."""
    yield from _walk(root, set())


def _walk(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:
            return  # a link to a folder that was already read
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            visible = sorted(
                (entry for entry in entries if entry.name[0] != "."), key=lambda one: natural_key(one.name)
            )
    except OSError as error:
        raise DatasetError(f"{folder}: cannot be listed: {error.strerror or error}") from None
    for entry in visible:
        if entry.is_file() and is_image(folder / entry.name):
            yield folder / entry.name
    for entry in visible:
        if entry.is_dir():
            yield from _walk(folder / entry.name, seen)


def is_image(path: Path) -> bool:
    """Whether a file has the suffix of an image or, with another suffix, its first bytes."""
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return True
    try:
        with path.open("rb") as stream:
            return image_format(stream.read(16)) is not None
    except OSError:
        return False


def _recognise(probe: Probe) -> bool:
    return probe.is_folder and next(walk_images(probe.path), None) is not None


FOLDER = DatasetReader(
    name="folder",
    title="folder of images",
    description="sub-folders are classes",
    needs="the folder",
    recognise=_recognise,
    read=lambda path, _: read_folder(path),
)
