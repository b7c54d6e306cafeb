"""Output of commands: tables through rich, or JSON on stdout with `--json` and nothing else there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

# rich cuts piped output at 80 columns; a table in a file should be complete. No emoji: an id `:dog:` stays unchanged.
console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160, emoji=False)
console_err = Console(stderr=True, emoji=False)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]

OverwriteFlag = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output that captrial did not write or that has changed since.")
]


def print_json(value: object) -> None:
    """Write one JSON document to stdout; numpy values are converted, NaN becomes null."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    sys.stdout.write(orjson.dumps(value, option=options).decode() + "\n")


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()
) -> None:
    """Print a table with right-aligned numbers, and `notes` below it; nothing in it is interpreted as markup."""
    rows = [list(row) for row in rows]
    table = Table(header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in rows) and bool(rows)
        table.add_column(Text(column), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(title, style="bold", soft_wrap=True, highlight=False, markup=False)
    console.print(table)
    for note in notes:
        console.print(f"  {note}", style="dim", soft_wrap=True, highlight=False, markup=False)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
