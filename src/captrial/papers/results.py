"""What the makers of exhibits hand over, and what is kept of it: tables as text, figures as files, claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from captrial.grounding.tables import Table
from captrial.report.charts import Chart


@dataclass(frozen=True)
class Sheet:
    """A table as it is shown: every cell is text."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table) -> Sheet:
        """A table of results; sections become rows of their own."""
        rows = tuple(tuple(row) for row in table.shown())
        return cls(table.name, table.title, tuple(table.headings()), rows, table.notes)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Sheet:
        """What `asdict` gave, or an entry of `papers.json`."""
        rows = tuple(tuple(row) for row in document["rows"])
        return cls(
            document["name"], document["title"], tuple(document["columns"]), rows, tuple(document.get("notes", ()))
        )

    def markdown(self) -> str:
        """As a Markdown table, notes below."""
        lines = [_row(self.columns), _row(["---"] * len(self.columns)), *map(_row, self.rows)]
        notes = [_sentence(note) for note in self.notes]
        return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _sentence(note: str) -> str:
    """With a capital, unless it begins with a name of ours or a figure, and a full stop.

    >>> _sentence("x100; more is better"), _sentence("more is better.")
    ('x100; more is better.', 'More is better.')
    """
    first = note.split(maxsplit=1)[0] if note.strip() else ""
    begun = note[:1].upper() + note[1:] if first.isalpha() else note
    return f"{begun.rstrip('.')}."


@dataclass(frozen=True)
class Claim:
    """Something the paper says of an exhibit, and whether it holds here."""

    text: str
    holds: bool
    seen: str  # the numbers behind it


@dataclass(frozen=True)
class Drawn:
    """A figure in a file below the folder of results."""

    file: str
    title: str


@dataclass
class Made:
    """What a maker hands over; `missing` says why there is nothing."""

    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    images: list[tuple[Path, str]] = field(default_factory=list)  # files already written, with titles
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str = ""


@dataclass(frozen=True)
class Result:
    """What is kept of an exhibit that was made."""

    key: str
    sheets: tuple[Sheet, ...] = ()
    figures: tuple[Drawn, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    missing: str = ""
    seconds: float = 0.0  # of processor time
    reused: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(self)
        del plain["reused"]
        return plain

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Result:
        """What `to_dict` gave, as something that is used again."""
        return cls(
            document["key"],
            tuple(map(Sheet.from_dict, document["sheets"])),
            tuple(Drawn(**figure) for figure in document["figures"]),
            tuple(Claim(**claim) for claim in document["claims"]),
            tuple(document["notes"]),
            document["missing"],
            document["seconds"],
            reused=True,
        )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
