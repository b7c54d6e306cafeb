"""Raw rows of a caption file, before they are checked, and the bytes they are read from.

A row has an id and a caption as found in the file, and its place there (line or entry) for messages. `load` returns the
bytes of a file, `json_rows` and `table_rows` turn them into `Rows`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from captrial.errors import CaptionFileError

BOM = b"\xef\xbb\xbf"
FOREIGN = {  # first bytes of files that are often given by mistake
    b"\x1f\x8b": "is compressed (gzip); unpack it first",
    b"PK\x03\x04": "is a ZIP archive or a spreadsheet, but not .xlsx; unpack it, or export it as CSV",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
}

# In order of preference: a COCO annotation has both `image_id` and an `id` of its own.
ID_NAMES = ("image_id", "picture_id", "id", "image", "filename", "file_name", "file", "key", "index")
CAPTION_NAMES = ("caption", "text", "prediction")  # index and prediction: tables of VLMEvalKit
REFERENCE_NAMES = (*CAPTION_NAMES, "captions", "references", "sentences")
ID_LIKE = re.compile(r"[\d./\\]")  # in most ids of images, and in few names of columns
WANTED = "an id (image_id, id, file, filename ...) and a caption (caption or text)"


@dataclass(frozen=True, slots=True)
class NotARecord:
    """An entry of the file that is not an object."""

    value: object


@dataclass(frozen=True, slots=True)
class Pairs:
    """A JSON object that has a key more than once; a dict would silently keep the last value."""

    items: list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Parallel columns of raw values; `None` where a value is absent or null.

    `unit` and `number` give the place of a row in messages ("line 7"). `suspect` is set where strings may contain bytes
    that were not UTF-8 (as lone surrogates); `bad_byte` is the place of the first such byte. `headless` is set for a
    table of two columns, separated by tabs, that are not named.
    """

    ids: list[Any]
    captions: list[Any]
    id_name: str
    caption_name: str
    unit: str
    number: Callable[[int], int] = lambda index: index + 1
    splits: list[Any] | None = None
    suspect: bool = False
    bad_byte: str | None = None
    headless: bool = False

    def where(self, index: int) -> str:
        """The place of a row, e.g. `line 7`."""
        return f"{self.unit} {self.number(index)}"


def records_to_rows(
    records: Sequence[Any],
    source: str,
    caption_names: Sequence[str],
    *,
    unit: str,
    number: Callable[[int], int] = lambda index: index + 1,
) -> Rows:
    """The ids and captions of a sequence of JSON objects."""
    id_name = _first_name(ID_NAMES, records)
    caption_name = _first_name(caption_names, records)
    if caption_name is None and id_name is not None and isinstance(records[0], dict):
        raise CaptionFileError(which_caption(records[0], source, caption_names))
    if id_name is None or caption_name is None:
        raise CaptionFileError(f"{source}: no {unit} has {WANTED}; {_first_record(records)}")
    splits = _column(records, "split") if _first_name(["split"], records[:1]) else None
    return Rows(_column(records, id_name), _column(records, caption_name), id_name, caption_name, unit, number, splits)


def pick_columns(names: Iterable[str], caption_names: Sequence[str], source: str) -> tuple[int, int]:
    """Positions of the id column and the caption column among `names`."""
    names = [name.strip().lower() for name in names]
    chosen = []
    for wanted in (ID_NAMES, [name.lower() for name in caption_names]):
        name = next((name for name in wanted if name in names), None)
        if name is None and wanted is ID_NAMES and is_chosen(caption_names) and len(names) == 2:
            name = next((name for name in names if name != caption_names[0].lower()), None)  # the other column
        if name is None and wanted is not ID_NAMES:
            raise CaptionFileError(which_caption(names, source, caption_names))
        if name is None:
            raise CaptionFileError(f"{source}: the columns are {_listed(names)}; needed are {WANTED}")
        if names.count(name) > 1:
            raise CaptionFileError(f"{source}: {names.count(name)} columns are named {name}; rename all but one")
        chosen.append(names.index(name))
    return chosen[0], chosen[1]


def is_chosen(caption_names: Sequence[str]) -> bool:
    """Whether the user named the column of the captions."""
    return len(caption_names) == 1


def which_caption(names: Iterable[str], source: str, caption_names: Sequence[str]) -> str:
    """The question that a table without a column of a known name raises."""
    if is_chosen(caption_names):
        return f"{source}: there is no column {caption_names[0]!r}; the columns are {_listed(names)}"
    way = "name it with --caption-column" if caption_names[0] == CAPTION_NAMES[0] else "rename it to caption"
    return f"{source}: columns {_listed(names)}; which is the caption? {way[0].upper()}{way[1:]}"


def has_names(names: Iterable[str], caption_names: Sequence[str]) -> bool:
    """Whether these are column names of a caption table."""
    present = {name.strip().lower() for name in names}
    wanted = {name.lower() for name in caption_names}
    return not present.isdisjoint(wanted) and (is_chosen(caption_names) or not present.isdisjoint(ID_NAMES))


def looks_like_names(first: Sequence[str], second: Sequence[str], caption_names: Sequence[str]) -> bool:
    """Whether the first row of a table names columns, though not those that are known.

    It does if it has a known name; or if all its fields are single words, while the next row's id is one of an image.

    >>> looks_like_names(["photo", "output"], ["a.jpg", "a dog runs"], CAPTION_NAMES)
    True
    >>> looks_like_names(["cat", "dog"], ["bus", "a car"], CAPTION_NAMES)
    False
    """
    names = [name.strip() for name in first]
    if not {name.lower() for name in names}.isdisjoint({*ID_NAMES, *caption_names}):
        return True
    words = all(name and " " not in name and not ID_LIKE.search(name) for name in names)
    return words and len(second) == len(first) and bool(ID_LIKE.search(second[0]))


def describe(value: object) -> str:
    """Describe a raw value for an error message: `text`, `the number 42.0`, `a list`."""
    if isinstance(value, NotARecord):
        return describe(value.value) + ("" if isinstance(value.value, Pairs) else " instead of an object")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | int):
        return f"the number {value!r:.40}"
    words = {
        type(None): "null",
        str: "text",
        list: "a list",
        dict: "an object",
        bytes: "binary",
        Pairs: "an object that names a key twice",
    }
    return words.get(type(value), f"a {type(value).__name__}")


def _first_name(names: Sequence[str], records: Sequence[Any]) -> str | None:
    """The most preferred name in the first record that has any of them."""
    for record in records:
        if isinstance(record, dict):
            found = next((name for name in names if name in record), None)
            if found is not None:
                return found
    return None


def _column(records: Sequence[Any], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), records))  # the common case, at C speed
    except (KeyError, TypeError, IndexError):
        return [record.get(name) if isinstance(record, dict) else NotARecord(record) for record in records]


def _first_record(records: Sequence[Any]) -> str:
    if not records:
        return "the list is empty"
    first = records[0]
    return f"the first has {_listed(first)}" if isinstance(first, dict) else f"the first is {describe(first)}"


def _listed(names: Iterable[object]) -> str:
    shown = [str(name)[:40] for name in names]
    return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "") if shown else "none"


def load(path: Path | str) -> bytes:
    """The bytes of a caption file without a byte order mark; a `CaptionFileError` where it cannot be one."""
    path = Path(path)
    try:
        if path.is_dir():
            raise CaptionFileError(f"{path}: is a directory; name a caption file in it")
        content = path.read_bytes()
    except FileNotFoundError:
        raise CaptionFileError(f"{path}: no such file; check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CaptionFileError(f"{path}: cannot be read ({error}); check the path and its permissions") from None
    content = content.removeprefix(BOM)
    if not content.strip():
        raise CaptionFileError(f"{path}: is empty; it needs captions")
    _refuse_foreign(content, path.name)
    return content


def is_parquet(content: bytes) -> bool:
    """Whether these are the bytes of a Parquet file."""
    return content.startswith(b"PAR1")


def is_log_archive(content: bytes) -> bool:
    """Whether these are the bytes of an `.eval` archive of inspect: names stand in a ZIP file as they are."""
    return content.startswith(b"PK\x03\x04") and b"samples/" in content and b"header.json" in content


def is_workbook(content: bytes) -> bool:
    """Whether these are the bytes of an Excel workbook (.xlsx)."""
    return content.startswith(b"PK\x03\x04") and b"xl/worksheets/" in content


def looks_like_json(content: bytes) -> bool:
    """Whether the text opens as a JSON array or object."""
    return content[:4096].lstrip()[:1] in (b"[", b"{")


def decode(content: bytes) -> tuple[str, str | None]:
    """The text, and the place of its first byte that is not UTF-8; such bytes become lone surrogates.

    >>> decode(b"a dog\\nna\\xefve")
    ('a dog\\nna\\udcefve', 'byte 0xef at offset 8, line 2')
    """
    try:
        return content.decode(), None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        place = f"byte 0x{content[error.start]:02x} at offset {error.start}, line {line}"
        return content.decode(errors="surrogateescape"), place


def is_unicode(text: str) -> bool:
    """Whether a string can be encoded as UTF-8; lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_foreign(content: bytes, name: str) -> None:
    if is_parquet(content) or is_log_archive(content) or is_workbook(content):
        return
    for opening, what in FOREIGN.items():
        if content.startswith(opening):
            raise CaptionFileError(f"{name}: {what}")
    nul = content.find(b"\0")
    if nul >= 0:
        raise CaptionFileError(
            f"{name}: is not text (a zero byte at offset {nul}); give JSON, JSON lines, CSV, TSV or Parquet"
        )
