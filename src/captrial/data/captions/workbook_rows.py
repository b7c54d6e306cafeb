"""The sheet of an Excel workbook (.xlsx) as rows: what VLMEvalKit writes unless it is told otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from captrial.data.captions.rows import Rows, pick_columns
from captrial.data.captions.zip_members import unpack
from captrial.data.xml_documents import parse_xml
from captrial.errors import CaptionFileError

_ADVICE = "export it as CSV"
_STRINGS = "xl/sharedStrings.xml"
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_CELL = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")


def read_workbook(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a workbook of one sheet, whose first row names the columns."""
    parts = dict(unpack(content, source, lambda name: name == _STRINGS or bool(_SHEET.fullmatch(name)), _ADVICE))
    sheets = [name for name in parts if name != _STRINGS]
    if len(sheets) != 1:
        raise CaptionFileError(f"{source}: has {len(sheets)} sheets; export the one with the captions as CSV")
    try:
        shared = [_text(item) for item in parse_xml(parts[_STRINGS]).iterfind("{*}si")] if _STRINGS in parts else []
        rows = enumerate(parse_xml(parts[sheets[0]]).iterfind("{*}sheetData/{*}row"), 1)
        table = [(int(row.get("r", place)), _cells(row, shared)) for place, row in rows]
    except (ValueError, IndexError) as error:
        raise CaptionFileError(f"{source}: is no readable workbook ({error}); {_ADVICE}") from None
    (_, header), *filled = [(place, row) for place, row in table if row] or [(1, {})]
    names = {column: str(name) for column, name in header.items()}
    places = list(names)
    chosen = [places[index] for index in pick_columns(names.values(), caption_names, source)]
    ids, captions = ([row.get(column) for _, row in filled] for column in chosen)
    numbers = [place for place, _ in filled]
    return Rows(ids, captions, names[chosen[0]], names[chosen[1]], "row", numbers.__getitem__)


def _cells(row: Element, shared: Sequence[str]) -> dict[int, Any]:
    """The values of a row by column; cells without a value are left out."""
    found: dict[int, Any] = {}
    column = -1
    for cell in row.iterfind("{*}c"):
        place = _CELL.fullmatch(cell.get("r", ""))
        column = _column(place[1]) if place else column + 1
        value = _value(cell, shared)
        if value is not None:
            found[column] = value
    return found


def _column(letters: str) -> int:
    """
    >>> _column("A"), _column("Z"), _column("AA")
    (0, 25, 26)
    """
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _value(cell: Element, shared: Sequence[str]) -> Any:
    """Text, or a number; whole ones as integers, since a workbook knows no others than floats."""
    kind, value = cell.get("t", "n"), cell.findtext("{*}v")
    if kind == "inlineStr":
        inline = cell.find("{*}is")
        return None if inline is None else _text(inline)
    if value is None:
        return None
    if kind == "s":
        return shared[int(value)]
    if kind != "n":
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


def _text(item: Element) -> str:
    """The text of a string, plain or in runs of different fonts, without phonetic hints."""
    return "".join(part.text or "" for part in (*item.iterfind("{*}t"), *item.iterfind("{*}r/{*}t")))
