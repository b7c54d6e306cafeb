"""What all readers share: JSON with good errors, safe paths, natural order, splits, joining, problems."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import orjson

from captrial.errors import DatasetError
from captrial.records import Box, Sample

T = TypeVar("T")
_TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number"}


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
    """The lines of a UTF-8 text file without their ends; a line that is not UTF-8 is named."""
    lines = read_bytes(path).split(b"\n")
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path}: line {number} is not UTF-8: {error.reason} at byte {error.start}") from None
    return texts[:-1] if texts and not texts[-1] else texts


def expect(value: object, kind: type[T], where: str) -> T:
    """`value` if it is of the JSON type `kind`, else a `DatasetError` that says where and what was found.

    >>> expect("a", str, "file.json: images[0].filename")
    'a'
    """
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    found = "nothing" if value is None else _TYPE_NAMES.get(type(value), type(value).__name__)
    raise DatasetError(f"{where} must be {_TYPE_NAMES.get(kind, kind.__name__)}, found {found}")


def expect_field(record: Mapping[str, Any], key: str, kind: type[T], where: str) -> T:
    """The field `key` of a record, of the JSON type `kind`."""
    return expect(record.get(key), kind, f"{where}: {key!r}")


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
    """`root / name`, refused where `name` would lead out of `root`."""
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


def select_split(samples: list[Sample], split: str | None, source: Path | str) -> list[Sample]:
    """The samples of a split; `"train+restval"` names several. Asking for one that is not there is an error."""
    if split is None:
        return samples
    wanted = set(split.split("+"))
    present = Counter(sample.split for sample in samples if sample.split is not None)
    missing = sorted(wanted - set(present))
    if missing:
        known = ", ".join(f"{name} ({count})" for name, count in sorted(present.items())) or "no splits at all"
        raise DatasetError(f"{source}: no split {missing[0]!r}; it has {known}")
    return [sample for sample in samples if sample.split in wanted]


def reject_duplicates(samples: Iterable[Sample], source: Path | str) -> None:
    """Refuse a data set in which two samples share an id."""
    first: dict[str, int] = {}
    for index, sample in enumerate(samples):
        if first.setdefault(sample.id, index) != index:
            raise DatasetError(f"{source}: images {first[sample.id]} and {index} share the id {sample.id!r}; keep one")


def join(samples: Iterable[Sample], others: Iterable[Sample]) -> list[Sample]:
    """`samples` with the regions and extras that `others` give for the same ids (boxes for captions, say).

    A sample without a counterpart stays as it is; an extra that both have must not contradict, except `"problems"`,
    which add up. Ids in `others` alone are an error, since their boxes would be lost.
    """
    more = {sample.id: sample for sample in others}
    joined = [_join_one(sample, more.pop(sample.id)) if sample.id in more else sample for sample in samples]
    if more:
        raise DatasetError(f"{len(more)} ids have boxes and no sample, the first {next(iter(more))!r}")
    return joined


def _join_one(sample: Sample, other: Sample) -> Sample:
    extra = {**sample.extra}
    for key, value in other.extra.items():
        if key == "problems":
            extra[key] = (*problems([sample]), *problems([other]))
        elif extra.setdefault(key, value) != value:
            raise DatasetError(f"image {sample.id!r}: the two data sets disagree on {key!r}")
    return replace(sample, regions=sample.regions + other.regions, extra=extra)


def problems(samples: Iterable[Sample]) -> list[str]:
    """What the readers had to leave out or could not read, as sentences; empty for a clean data set."""
    found: list[str] = []
    for sample in samples:
        listed = sample.extra.get("problems", ())
        found += [str(text) for text in listed] if isinstance(listed, tuple | list) else []
        if "error" in sample.extra:
            found.append(str(sample.extra["error"]))
    return found


def present(samples: Iterable[Sample]) -> list[Sample]:
    """The samples whose image file is there (annotations often cover more images than were downloaded)."""
    names: dict[Path, set[str]] = {}

    def there(path: Path | None) -> bool:
        if path is None:
            return False
        if path.parent not in names:  # one listing a folder: far quicker than one look a file
            names[path.parent] = {entry.name for entry in os.scandir(path.parent)} if path.parent.is_dir() else set()
        return path.name in names[path.parent]

    return [sample for sample in samples if there(sample.image.path)]
