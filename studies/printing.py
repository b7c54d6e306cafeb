"""Tables on the terminal and in pages, for studies and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; floats get four significant digits."""
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row))
    Console(width=160, emoji=False, markup=False).print(table)


def with_tables(text: str, tables: Mapping[str, Sequence[str]]) -> str:
    """The text of a page with tables, each between its comment and the next `end`."""
    for part, lines in tables.items():
        begin = text.index(f"<!-- {part} -->\n") + len(f"<!-- {part} -->\n")
        text = text[:begin] + "\n".join(lines) + "\n" + text[text.index("<!-- end -->", begin) :]
    return text


def write_tables(page: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Put tables into a page."""
    page.write_text(with_tables(page.read_text(), tables))


def run_parts(
    parts: Mapping[str, Callable[[], Sequence[Mapping[str, Any]]]],
    names: Sequence[str],
    page: Path,
    page_tables: Callable[[], Mapping[str, Sequence[str]]],
) -> None:
    """Run the parts of a study that are named, or all, and print their rows; `tables` writes those of the page."""
    if list(names) == ["tables"]:
        write_tables(page, page_tables())
        return
    for name in names or parts:
        rows = parts[name]()
        for kind in dict.fromkeys(tuple(row) for row in rows):
            print_table(name, kind, [[row[key] for key in kind] for row in rows if tuple(row) == kind])
