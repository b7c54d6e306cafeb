"""The sheet of an Excel workbook (.xlsx) as rows: what VLMEvalKit writes unless it is told otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from captrial.data.captions.rows import Rows, pick_columns
from captrial.data.captions.zip_members import unpack
from captrial.data.xml_documents import ElementReader
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
    strings = _Strings()
    sheet = _Sheet(strings.found)
    try:
        if _STRINGS in parts:
            strings.read(parts.pop(_STRINGS))
        sheet.read(parts.pop(sheets[0]))
    except (ValueError, IndexError) as error:
        raise CaptionFileError(f"{source}: is no readable workbook ({error}); {_ADVICE}") from None
    (_, header), *filled = sheet.rows or [(1, {})]
    names = {column: str(name) for column, name in header.items()}
    places = list(names)
    chosen = [places[index] for index in pick_columns(names.values(), caption_names, source)]
    ids, captions = ([row.get(column) for _, row in filled] for column in chosen)
    numbers = [place for place, _ in filled]
    return Rows(ids, captions, names[chosen[0]], names[chosen[1]], "row", numbers.__getitem__)


class _Texts(ElementReader):
    """Texts of strings, plain or in runs of different fonts, without phonetic hints."""

    def __init__(self, places: Collection[tuple[str, ...]]) -> None:
        super().__init__()
        self._places, self._text = frozenset(places), list[str]()

    def data(self, text: str) -> None:
        """Keep it where it belongs to a string."""
        if self.path[-1] in ("t", "v") and tuple(self.path[1:7]) in self._places:
            self._text.append(text)

    def taken(self) -> str:
        """The text since the last call."""
        text = "".join(self._text)
        self._text.clear()
        return text


class _Strings(_Texts):
    """The strings that cells name by their number."""

    def __init__(self) -> None:
        super().__init__([("si", "t"), ("si", "r", "t")])
        self.found: list[str] = []

    def closed(self) -> None:
        """Keep a string."""
        if self.path[1:] == ["si"]:
            self.found.append(self.taken())


class _Sheet(_Texts):
    """The values of the rows by column; cells without a value and rows without cells are left out."""

    def __init__(self, shared: Sequence[str]) -> None:
        cell = ("sheetData", "row", "c")
        super().__init__([(*cell, "v"), (*cell, "is", "t"), (*cell, "is", "r", "t")])
        self.rows: list[tuple[int, dict[int, Any]]] = []  # with their numbers
        self._shared, self._place = shared, 0
        self._row: dict[int, Any] = {}
        self._column, self._kind, self._filled = -1, "n", False

    def opened(self, attributes: dict[str, str]) -> None:
        """Note the place of a row or cell, and whether the cell has a value."""
        depth, name = len(self.path), self.path[-1]
        if depth == 3 and name == "row":
            self._place, self._row, self._column = int(attributes.get("r", self._place + 1)), {}, -1
        elif depth == 4 and name == "c":
            place = _CELL.fullmatch(attributes.get("r", ""))
            self._column = _column(place[1]) if place else self._column + 1
            self._kind, self._filled = attributes.get("t", "n"), False
            self.taken()
        elif depth == 5 and name == ("is" if self._kind == "inlineStr" else "v"):
            self._filled = True

    def closed(self) -> None:
        """Keep a value, or a row."""
        if not self._row and not self._filled:
            return
        if len(self.path) == 4 and self._filled:
            self._row[self._column] = _value(self._kind, self.taken(), self._shared)
            self._filled = False
        elif len(self.path) == 3:
            self.rows.append((self._place, self._row))
            self._row = {}


def _column(letters: str) -> int:
    """
    >>> _column("A"), _column("Z"), _column("AA")
    (0, 25, 26)
    """
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _value(kind: str, text: str, shared: Sequence[str]) -> Any:
    """Text, or a number; whole ones as integers, since a workbook knows no others than floats."""
    if kind == "s":
        number = int(text)
        if number < 0:
            raise ValueError(f"a string of number {number}")
        return shared[number]
    if kind != "n":
        return text
    value = float(text)
    return int(value) if value.is_integer() else value
