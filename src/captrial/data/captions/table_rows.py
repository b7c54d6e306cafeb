"""CSV, TSV and Parquet caption files as rows.

CSV and TSV are parsed by pyarrow where quoting is unambiguous, and otherwise by Python's strict `csv` reader, which
reports the line of an error. Both give the same rows.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from captrial.data.captions.parquet_footer import column_bytes
from captrial.data.captions.rows import WANTED, Rows, decode, has_names, looks_like_names, pick_columns, which_caption
from captrial.errors import CaptionFileError

DELIMITERS = ("\t", ",", ";")
QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')
# Limits of the decoded columns: 370 000 captions take 30 MB, but a small Parquet file can unpack to terabytes.
MAX_PARQUET_BYTES = 1 << 30
MAX_PARQUET_ROWS = 20_000_000


def read_delimited(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a CSV or TSV table with a header, or with two columns and no header."""
    text, bad_byte = decode(content)
    delimiter, header = _opening(text, caption_names, source)
    columns = [*(pick_columns(header, caption_names, source) if header else (0, 1)), *_split_column(header)]
    width = len(header) if header else 2
    quoted = delimiter != "\t" or _tabs_are_quoted(text, width, source)
    table = None if bad_byte else _fast_table(content, delimiter, quoted, width)
    if table is not None:
        skip = 1 if header else 0
        ids, captions, *splits = (table[index][skip:].to_pylist() for index in columns)
        number = _LineNumbers(text, delimiter, quoted, skip).__getitem__
    else:
        fields = _slow_table(text, delimiter, quoted, width, source)[1 if header else 0 :]
        ids, captions, *splits = ([row[index] for _, row in fields] for index in columns)
        number = [line for line, _ in fields].__getitem__
    names = [header[index].strip() for index in columns] if header else ["id", "caption"]
    rows = Rows(ids, captions, names[0], names[1], "line", number, suspect=bad_byte is not None, bad_byte=bad_byte)
    return replace(rows, splits=splits[0] if splits else None, headless=header is None and delimiter == "\t")


def _split_column(header: Sequence[str] | None) -> list[int]:
    """The position of a column `split`, where there is one."""
    return [index for index, name in enumerate(header or ()) if name.strip().lower() == "split"][:1]


def _opening(text: str, caption_names: Sequence[str], source: str) -> tuple[str, list[str] | None]:
    """The delimiter, and the column names if the first line is a header."""
    lines = (line.rstrip("\n") for line in io.StringIO(text, newline=None) if line.strip())
    first, second = next(lines, ""), next(lines, "")
    for delimiter in DELIMITERS:
        fields = _split(first, delimiter)
        if len(fields) > 1 and has_names(fields, caption_names):
            return delimiter, fields
    for delimiter in DELIMITERS:
        if delimiter in first:
            names, values = _split(first, delimiter), _split(second, delimiter)
            if looks_like_names(names, values, caption_names):
                raise CaptionFileError(which_caption(names, source, caption_names))
            _refuse_headless(first, delimiter, source)
            return delimiter, None
    raise CaptionFileError(
        f"{source}: the first line has one column ({first[:60]!r}); a caption file is JSON, JSON lines, Parquet, or "
        f"a table with {WANTED}"
    )


def _refuse_headless(first: str, delimiter: str, source: str) -> None:
    """Without a header, two columns are an id and a caption; more columns are ambiguous."""
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
    """Whether quotes in a TSV enclose fields (spreadsheets, pandas) or are part of the captions (other tools)."""
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
    return io.StringIO(text, newline="")  # newline="": the csv module needs the line ends inside quotes


def _fast_table(content: bytes, delimiter: str, quoted: bool, width: int) -> pa.Table | None:
    """All columns as strings, or None where only the strict reader can decide."""
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
    """Whether every quote opens a field, closes one or is doubled inside one, so that all parsers agree."""
    data = np.frombuffer(b"\n" + content + b"\n", np.uint8)
    quotes = np.flatnonzero(data == ord('"'))
    if len(quotes) % 2:
        return False
    border = np.zeros(256, bool)
    border[[ord(delimiter), ord('"'), 10, 13]] = True
    # Counting from 0, even quotes open a field and odd ones close it; a doubled quote closes and opens again.
    return bool(border[data[quotes[::2] - 1]].all() and border[data[quotes[1::2] + 1]].all())


def _slow_table(text: str, delimiter: str, quoted: bool, width: int, source: str) -> list[tuple[int, list[str]]]:
    """(line, fields) of every row; a row with another number of columns is an error."""
    rows = []
    for line, row in _numbered(text, delimiter, quoted, source):
        if len(row) != width:
            hint = "; quote captions that contain the delimiter" if len(row) > width else ""
            raise CaptionFileError(f"{source}: line {line} has {len(row)} columns, not {width}{hint}")
        rows.append((line, row))
    return rows


def _numbered(text: str, delimiter: str, quoted: bool, source: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line on which each begins."""
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
    """Line numbers of the rows that pyarrow read, computed only when a message needs one."""

    def __init__(self, text: str, delimiter: str, quoted: bool, skip: int) -> None:
        self.arguments = (text, delimiter, quoted, "")
        self.skip = skip
        self.numbers: list[int] | None = None

    def __getitem__(self, index: int) -> int:
        if self.numbers is None:
            self.numbers = [line for line, _ in _numbered(*self.arguments)]
        return self.numbers[index + self.skip]


def read_parquet(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a Parquet table; only the id, caption and `split` columns are decoded."""
    try:
        return _read_parquet(content, source, caption_names)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise CaptionFileError(f"{source}: is a broken Parquet file ({reason}); write it again") from None


def _read_parquet(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    declared = column_bytes(content)  # first: a footer that cannot be decoded must not reach pyarrow
    file = pa.parquet.ParquetFile(pa.BufferReader(content))
    names = file.schema_arrow.names
    id_name, caption_name = (names[index] for index in pick_columns(names, caption_names, source))
    columns = [id_name, caption_name, *(["split"] if "split" in names else [])]
    table = pa.Table.from_batches(
        _batches(file, columns, sum(declared[name] for name in columns), source), schema=_schema(file, columns)
    )
    splits = table["split"].to_pylist() if "split" in columns else None
    ids, captions = table[id_name].to_pylist(), table[caption_name].to_pylist()
    return Rows(ids, captions, id_name, caption_name, "row", splits=splits)


def _schema(file: pa.parquet.ParquetFile, columns: list[str]) -> pa.Schema:
    return pa.schema([file.schema_arrow.field(name) for name in columns])


def _batches(file: pa.parquet.ParquetFile, columns: list[str], declared: int, source: str) -> list[pa.RecordBatch]:
    _check_size(file.metadata.num_rows, declared, source)
    batches, size = [], 0
    for batch in file.iter_batches(65_536, columns=columns):
        size += batch.nbytes
        _check_size(0, size, source)
        batches.append(batch.select(columns))
    return batches


def _check_size(rows: int, size: int, source: str) -> None:
    if rows > MAX_PARQUET_ROWS or size > MAX_PARQUET_BYTES:
        raise CaptionFileError(
            f"{source}: unpacks to more than {MAX_PARQUET_ROWS} rows or {MAX_PARQUET_BYTES >> 20} MiB; "
            "split it into smaller files"
        )
