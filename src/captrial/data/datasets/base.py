"""What every data set reader shares: `DatasetReader`, `Probe`, JSON with helpful errors, safe paths, natural order.

A reader is one file of this package: a function that returns `Sample`s and raises `DatasetError` with file, line or id,
and a `DatasetReader` that describes it. `captrial.data.datasets.registry` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import orjson

from captrial.errors import DatasetError
from captrial.records import Box, Sample

T = TypeVar("T")
_TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number"}
_PROBE_BYTES = 1 << 16  # of a text file that are read to recognise it
_ANNOTATION_SUFFIXES = (".json", ".txt", ".token")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of `read_dataset` that a reader may use."""

    images: Path | str | None = None  # the folder of the images, if not beside the annotations


@dataclass(frozen=True, slots=True)
class DatasetReader:
    """One data set format: how it is called, recognised and read."""

    name: str  # the value of `format=` and `--format`
    title: str
    description: str
    needs: str  # the path to give
    recognise: Callable[[Probe], bool]
    read: Callable[[Path, ReadOptions], Iterable[Sample]]
    takes_images: bool = False  # whether `images=` may name the folder of the images
    in_folders: bool = False  # whether a folder with one annotation file of this format is read as well

    def __str__(self) -> str:
        return f"{self.title} ({self.description})"


class Probe:
    """A path to be recognised; what readers need to know about it is read once for all of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_folder = path.is_dir()

    @cached_property
    def files(self) -> list[Path]:
        """The visible files of a folder, sorted; none for a file."""
        if not self.is_folder:
            return []
        return sorted(entry for entry in self.path.iterdir() if entry.is_file() and not entry.name.startswith("."))

    @cached_property
    def annotations(self) -> list[Probe]:
        """The files of a folder that may hold annotations."""
        return [Probe(entry) for entry in self.files if entry.suffix in _ANNOTATION_SUFFIXES]

    @cached_property
    def first_line(self) -> bytes:
        """The first line of a text file; empty for folders, JSON and paths that do not exist."""
        return self._start.partition(b"\n")[0] if not self._is_json else b""

    @cached_property
    def document(self) -> Any:
        """The JSON value of a file, None where it is not JSON; a malformed `.json` file is a `DatasetError`."""
        if not self._is_json or not self.path.is_file():
            return None
        try:
            return read_json(self.path)
        except DatasetError:
            if self.path.suffix == ".json":
                raise
            return None

    @cached_property
    def _start(self) -> bytes:
        if not self.path.is_file():
            return b""
        with self.path.open("rb") as stream:
            return stream.read(_PROBE_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")

    @property
    def _is_json(self) -> bool:
        return self.path.suffix == ".json" or self._start.startswith(b"{")


def read_json(path: Path | str) -> Any:
    """The JSON value in a file; a missing or malformed file is a `DatasetError` with line and column."""
    content = read_bytes(path)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{path}: not JSON: {error}") from None


def read_bytes(path: Path | str) -> bytes:
    """The content of a file, without a byte order mark; an unreadable one is a `DatasetError`."""
    try:
        return Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_lines(path: Path | str) -> list[str]:
    """The lines of a UTF-8 text file without line ends; a line that is not UTF-8 is a `DatasetError`."""
    lines = read_bytes(path).split(b"\n")
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path}: line {number} is not UTF-8: {error.reason} at byte {error.start}") from None
    return texts[:-1] if texts and not texts[-1] else texts


def expect(value: object, kind: type[T], where: str) -> T:
    """Return `value` if it is of the JSON type `kind`; else raise a `DatasetError` with the place and what was found.

    >>> expect("a", str, "file.json: images[0].filename")
    'a'
    """
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    found = "nothing" if value is None else _TYPE_NAMES.get(type(value), type(value).__name__)
    raise DatasetError(f"{where} must be {_TYPE_NAMES.get(kind, kind.__name__)}, found {found}")


def expect_field(record: object, key: str, kind: type[T], where: str) -> T:
    """The field `key` of a record, of the JSON type `kind`; the record itself must be an object."""
    return expect(expect(record, dict, where).get(key), kind, f"{where}: {key!r}")


def read_box(numbers: Sequence[object], where: str) -> Box:
    """A box from four finite numbers `x1, y1, x2, y2`; it may be empty: see `is_empty`."""
    if len(numbers) != 4:
        raise DatasetError(f"{where}: a box has four numbers, found {len(numbers)}")
    box = Box(*(expect(number, float, where) for number in numbers))
    if not all(abs(number) < 1e9 for number in box):  # also false for NaN
        raise DatasetError(f"{where}: a box of finite numbers is needed, found {list(box)}")
    return box


def is_empty(box: Box) -> bool:
    """Whether a box has no area, which `Region` does not allow."""
    return not (box.x1 < box.x2 and box.y1 < box.y2)


def safe_join(root: Path, name: str, where: str) -> Path:
    """`root / name`; a `DatasetError` where `name` would lead out of `root`."""
    parts = PurePosixPath(name.replace("\\", "/"))
    if not name or "\0" in name or parts.is_absolute() or ".." in parts.parts or ":" in parts.parts[0]:
        raise DatasetError(f"{where}: the file name {name!r} leads out of the image folder")
    return root.joinpath(*parts.parts)


def image_root(annotations: Path, images: Path | str | None) -> Path | None:
    """The folder of the images: the one given, else a folder `images` beside the annotations, else none."""
    if images is not None:
        root = Path(images)
        if not root.is_dir():
            raise DatasetError(f"{root}: no such image folder")
        return root
    beside = annotations.parent / "images"
    return beside if beside.is_dir() else None


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts `frame9` before `frame10`.

    >>> sorted(["f10.jpg", "f9.jpg", "F1.jpg"], key=natural_key)
    ['F1.jpg', 'f9.jpg', 'f10.jpg']
    """
    pieces = re.split(r"([0-9]+)", name.casefold())
    key = [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece]
    return [*key, (2, 0, name)]  # names that differ only in case or leading zeros still have one order
