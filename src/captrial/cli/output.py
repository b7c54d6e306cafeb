"""Output of commands: tables through rich, or JSON on stdout with `--json` and nothing else there."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from captrial.folders import claim_folder, lock_folder
from captrial.progress import SafeConsole

if TYPE_CHECKING:
    from captrial.data import CaptionLayout

# rich cuts piped output at 80 columns; a table in a file should be complete. No emoji: an id `:dog:` stays unchanged.
console = SafeConsole(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160, emoji=False)
console_err = SafeConsole(stderr=True, emoji=False)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]

ObjectsOption = Annotated[
    Path | None, typer.Option("--objects", help='Classes in each image, {"id": [...]}: for CHAIR and Coverage.')
]
ClipOption = Annotated[
    str | None, typer.Option("--clip", help="CLIP checkpoint (name or folder; NAME?weight=2 for PAC-S); needs images.")
]
ReferencesOption = Annotated[
    Path, typer.Option("--references", "-r", help="Reference captions: a file or a data set.", show_default=False)
]
ReferencesSplit = Annotated[str | None, typer.Option("--split", help="Use one split of the references.")]
SimilarityOption = Annotated[
    str, typer.Option("--similarity", help="How nouns compare: table+vectors, or the papers' vectors alone.")
]
VectorsOption = Annotated[Path | None, typer.Option("--vectors", help="A GloVe or word2vec file for --similarity.")]
CaptionColumn = Annotated[
    str | None, typer.Option("--caption-column", help="The column of the captions, if it has an unusual name.")
]
IdTable = Annotated[
    Path | None,
    typer.Option("--ids", help="A table theirs,ours (CSV, JSON) for ids of caption files that match no known id."),
]
OverwriteFlag = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output that captrial did not write or that has changed since.")
]


def caption_layout(caption_column: str | None, ids: Path | None) -> CaptionLayout:
    """The options `--caption-column` and `--ids`."""
    from captrial.data import CaptionLayout, read_id_table

    return CaptionLayout(caption_column, read_id_table(ids) if ids else {})


_running: ContextVar[typer.Context] = ContextVar("the running command")


def set_running(context: typer.Context) -> None:
    """Called by the root of the command line, before a command."""
    _running.set(context)


def hold_lock(folder: Path, what: str) -> None:
    """Lock a folder (see `captrial.folders.lock_folder`) until the command ends."""
    _running.get().with_resource(lock_folder(folder, what))


def hold_folder(folder: Path, overwrite: bool = False) -> None:
    """Refuse an output folder that holds something else, mark it as captrial's, and lock it until the command ends."""
    hold_lock(folder, "output folder")
    claim_folder(folder, overwrite=overwrite)


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


def interval_text(low: float | None, high: float | None, digits: int = 3) -> str | None:
    """An interval as tables show it; None where there is none."""
    if low is None or high is None or math.isnan(low):
        return None
    return f"{low:.{digits}f} - {high:.{digits}f}"


def ranking_cells(row: Mapping[str, Any], digits: int = 3) -> list[object]:
    """A row of a ranking's JSON as cells: rank, model, score, interval and the range of its ranks."""
    ranks = None if row["rank_low"] is None else f"{row['rank_low']} - {row['rank_high']}"
    return [row["rank"], row["model"], row["score"], interval_text(row["low"], row["high"], digits), ranks]


def share_text(share: float | None) -> str | None:
    """A share as tables show it; None where there is none."""
    return None if share is None else f"{share:.1%}"


def print_next_step(command: str, purpose: str) -> None:
    """Print the command to run next."""
    console.print(f"[dim]next:[/] {escape(purpose)}\n  [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


def print_warning(message: str) -> None:
    """Print a warning on stderr."""
    console_err.print(f"[bold yellow]note:[/] {escape(message)}", highlight=False, soft_wrap=True)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
