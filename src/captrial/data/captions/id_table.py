"""A table of ids that the user writes where two files name images differently: id in the one, id in the other."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import orjson

from captrial.data.captions.rows import decode, load
from captrial.errors import InputError


def read_id_table(path: Path | str) -> dict[str, str]:
    """Ids by other ids, from a CSV or TSV file of two columns (with or without a header), or a JSON object."""
    path = Path(path)
    content = load(path)
    if content.lstrip()[:1] == b"{":
        try:
            found = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path}: cannot be read as JSON ({error}); write two columns of CSV instead") from None
        return {str(theirs): str(ours) for theirs, ours in found.items()}
    text, _ = decode(content)
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    table: dict[str, str] = {}
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as a table ({error}); write two columns: their id, our id") from None
    for line, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) != 2:
            raise InputError(f"{path}: line {line} has {len(row)} columns; write two: their id, our id")
        theirs, ours = (cell.strip() for cell in row)
        if table.setdefault(theirs, ours) != ours:
            raise InputError(f"{path}: line {line}: {theirs} is {table[theirs]} and {ours}; keep one")
    return table
