"""Rows as they stand in a file, before anything is believed: raw ids, raw captions, and where each one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from captrial.errors import CaptionFileError

# In order of preference: a COCO annotation has both `image_id` and an `id` of its own.
ID_NAMES = ("image_id", "picture_id", "id", "image", "filename", "file_name", "file", "key")
CAPTION_NAMES = ("caption", "text")
REFERENCE_NAMES = (*CAPTION_NAMES, "captions", "references", "sentences")
WANTED = "an id (image_id, id, file, filename ...) and a caption (caption or text)"


@dataclass(frozen=True, slots=True)
class NotARecord:
    """Stands where an entry should have been an object and was not."""

    value: object


@dataclass(frozen=True, slots=True)
class Pairs:
    """A JSON object in which a key stands more than once; a dict would silently keep the last."""

    items: list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Parallel columns of raw values; `None` where a value is absent or null.

    `unit` and `number` name a row for people ("line 7"). `suspect` says that strings may hold bytes that were not
    UTF-8 (as lone surrogates); `bad_byte` says where the first such byte is.
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
    """Take ids and captions out of a sequence of JSON objects."""
    id_name = _first_name(ID_NAMES, records)
    caption_name = _first_name(caption_names, records)
    if id_name is None or caption_name is None:
        raise CaptionFileError(f"{source}: no {unit} has {WANTED}; {_what_is_there(records)}")
    splits = _column(records, "split") if _first_name(["split"], records[:1]) else None
    return Rows(_column(records, id_name), _column(records, caption_name), id_name, caption_name, unit, number, splits)


def pick_columns(names: Iterable[str], caption_names: Sequence[str], source: str) -> tuple[int, int]:
    """Positions of the id column and the caption column among `names`."""
    names = [name.strip().lower() for name in names]
    chosen = []
    for wanted in (ID_NAMES, caption_names):
        name = next((name for name in wanted if name in names), None)
        if name is None:
            raise CaptionFileError(f"{source}: the columns are {_listed(names)}; needed are {WANTED}")
        if names.count(name) > 1:
            raise CaptionFileError(f"{source}: {names.count(name)} columns are named {name}; rename all but one")
        chosen.append(names.index(name))
    return chosen[0], chosen[1]


def has_names(names: Iterable[str], caption_names: Sequence[str]) -> bool:
    """Whether these are column names of a caption table."""
    present = {name.strip().lower() for name in names}
    return not present.isdisjoint(ID_NAMES) and not present.isdisjoint(caption_names)


def describe(value: object) -> str:
    """A raw value in words, for an error message."""
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


def _what_is_there(records: Sequence[Any]) -> str:
    if not records:
        return "there are none at all"
    first = records[0]
    return f"the first has {_listed(first)}" if isinstance(first, dict) else f"the first is {describe(first)}"


def _listed(names: Iterable[object]) -> str:
    shown = [str(name)[:40] for name in names]
    return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "") if shown else "none"
