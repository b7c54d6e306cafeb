"""CSV and TSV caption files to rows.

Two ways lead to the same rows: pyarrow, where the quotes in the file leave no doubt, and Python's strict reader, which
knows lines and says what is wrong, everywhere else.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from captrial.data.captions.content import decode
from captrial.data.captions.rows import WANTED, Rows, has_names, pick_columns
from captrial.errors import CaptionFileError

DELIMITERS = ("\t", ",", ";")
QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')


def read_delimited(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a table with a header that names its columns, or of two columns without one."""
    text, bad_byte = decode(content)
    delimiter, header = _opening(text, caption_names, source)
    columns = pick_columns(header, caption_names, source) if header else (0, 1)
    width = len(header) if header else 2
    quoted = delimiter != "\t" or _tabs_are_quoted(text, width, source)
    table = None if bad_byte else _fast_table(content, delimiter, quoted, width)
    if table is not None:
        skip = 1 if header else 0
        ids, captions = (table[index][skip:].to_pylist() for index in columns)
        number = _LineNumbers(text, delimiter, quoted, skip).__getitem__
    else:
        fields = _slow_table(text, delimiter, quoted, width, source)[1 if header else 0 :]
        ids, captions = ([row[index] for _, row in fields] for index in columns)
        number = [line for line, _ in fields].__getitem__
    names = [header[index].strip() for index in columns] if header else ["id", "caption"]
    return Rows(ids, captions, names[0], names[1], "line", number, suspect=bad_byte is not None, bad_byte=bad_byte)


def _opening(text: str, caption_names: Sequence[str], source: str) -> tuple[str, list[str] | None]:
    """The delimiter, and the header if the first line is one."""
    lines = (line for line in io.StringIO(text, newline=None) if line.strip())
    first = next(lines, "").rstrip("\n")
    for delimiter in DELIMITERS:
        fields = _split(first, delimiter)
        if len(fields) > 1 and has_names(fields, caption_names):
            return delimiter, fields
    for delimiter in DELIMITERS:
        if delimiter in first:
            _refuse_headless(first, delimiter, source)
            return delimiter, None
    raise CaptionFileError(
        f"{source}: the first line has one column ({first[:60]!r}); a caption file is JSON, JSON lines, Parquet, or "
        f"a table with {WANTED}"
    )


def _refuse_headless(first: str, delimiter: str, source: str) -> None:
    """Without a header two columns are an id and a caption; more could be anything."""
    count = len(_split(first, delimiter))
    if count > 2:
        raise CaptionFileError(
            f"{source}: line 1 has {count} columns and no header; add a header that names {WANTED}, or quote captions "
            "that contain the delimiter"
        )


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _tabs_are_quoted(text: str, width: int, source: str) -> bool:
    """Whether quotes in a TSV enclose fields (spreadsheets, pandas) or are part of the captions (everybody else)."""
    if '"' not in text:
        return False
    if text.startswith('"'):
        return True
    lines = [line.split("\t") for line in text.replace("\r\n", "\n").split("\n") if line]
    opened = [field for fields in lines for field in fields if field.startswith('"')]
    if not opened:
        return False
    if all(QUOTED_FIELD.fullmatch(field) for field in opened):
        return True
    raw = all(len(fields) == width for fields in lines)
    enclosed = _parses(text, width)
    if raw and enclosed:
        raise CaptionFileError(
            f"{source}: its quotes can be read two ways (around fields or inside captions); write it as JSON or CSV"
        )
    return enclosed


def _parses(text: str, width: int) -> bool:
    try:
        return all(len(row) == width for row in csv.reader(_lines(text), delimiter="\t", strict=True) if row)
    except csv.Error:
        return False


def _lines(text: str) -> Iterator[str]:
    return io.StringIO(text, newline="")  # newline="": the csv module wants to see line ends inside quotes


def _fast_table(content: bytes, delimiter: str, quoted: bool, width: int) -> pa.Table | None:
    """All columns as strings, or None where only the slow reader can judge."""
    if quoted and not _quotes_are_plain(content, delimiter):
        return None
    names = [str(index) for index in range(width)]
    try:
        return pa.csv.read_csv(
            pa.py_buffer(content),
            read_options=pa.csv.ReadOptions(column_names=names, block_size=len(content) + 1),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        return None


def _quotes_are_plain(content: bytes, delimiter: str) -> bool:
    """Whether every quote opens a field, closes one or is doubled inside one, so that all readers agree."""
    data = np.frombuffer(b"\n" + content + b"\n", np.uint8)
    quotes = np.flatnonzero(data == ord('"'))
    if len(quotes) % 2:
        return False
    border = np.zeros(256, bool)
    border[[ord(delimiter), ord('"'), 10, 13]] = True
    # Counted from the start, even quotes open and odd ones close; a doubled quote closes and opens again.
    return bool(border[data[quotes[::2] - 1]].all() and border[data[quotes[1::2] + 1]].all())


def _slow_table(text: str, delimiter: str, quoted: bool, width: int, source: str) -> list[tuple[int, list[str]]]:
    """(line, fields) of every row; a row that does not fit is an error with its line."""
    rows = []
    for line, row in _numbered(text, delimiter, quoted, source):
        if len(row) != width:
            hint = "; quote captions that contain the delimiter" if len(row) > width else ""
            raise CaptionFileError(f"{source}: line {line} has {len(row)} columns, not {width}{hint}")
        rows.append((line, row))
    return rows


def _numbered(text: str, delimiter: str, quoted: bool, source: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each one begins on."""
    reader = csv.reader(
        _lines(text), delimiter=delimiter, strict=True, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    )
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise CaptionFileError(
            f"{source}: line {line} cannot be read ({error}); double the quotes inside a quoted caption, and close it"
        ) from None


class _LineNumbers:
    """Line numbers of the fast reader's rows, found only when a message needs one."""

    def __init__(self, text: str, delimiter: str, quoted: bool, skip: int) -> None:
        self.arguments = (text, delimiter, quoted, "")
        self.skip = skip
        self.numbers: list[int] | None = None

    def __getitem__(self, index: int) -> int:
        if self.numbers is None:
            self.numbers = [line for line, _ in _numbered(*self.arguments)]
        return self.numbers[index + self.skip]
