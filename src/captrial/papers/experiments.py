"""The experiments of the papers as data, and their results.

`papers.json` declares every table and figure, how it is reproduced and the numbers that the paper printed. An
experiment function returns an `ExperimentOutput`; an `ExperimentResult` is what is kept of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import orjson

from captrial.grounding.tables import Table
from captrial.papers.claims import PaperClaim
from captrial.report.charts import Chart


@dataclass(frozen=True)
class TextTable:
    """A table as it is shown: every cell is text."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table) -> TextTable:
        """A table of results; sections become rows of their own."""
        rows = tuple(tuple(row) for row in table.shown())
        return cls(table.name, table.title, tuple(table.headings()), rows, table.notes)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> TextTable:
        """The result of `asdict`, or an entry of `papers.json`."""
        rows = tuple(tuple(map(str, row)) for row in document["rows"])
        columns, notes = (tuple(map(str, document.get(name, ()))) for name in ("columns", "notes"))
        return cls(str(document["name"]), str(document["title"]), columns, rows, notes)

    def markdown(self) -> str:
        """As a Markdown table, notes below."""
        lines = [_row(self.columns), _row(["---"] * len(self.columns)), *map(_row, self.rows)]
        notes = [_sentence(note) for note in self.notes]
        return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _sentence(note: str) -> str:
    """Capitalised, unless it begins with a name or a number, and with a full stop.

    >>> _sentence("x100; more is better"), _sentence("more is better.")
    ('x100; more is better.', 'More is better.')
    """
    first = note.split(maxsplit=1)[0] if note.strip() else ""
    begun = note[:1].upper() + note[1:] if first.isalpha() else note
    return f"{begun.rstrip('.')}."


@dataclass(frozen=True)
class FigureFile:
    """A figure in a file below the folder of results."""

    file: str
    title: str

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FigureFile:
        """The result of `asdict`; a file outside the folder is refused, since pages embed it."""
        file = PurePosixPath(document["file"])
        if file.is_absolute() or ".." in file.parts:
            raise ValueError(f"the figure {file} is outside the folder")
        return cls(str(file), str(document["title"]))


@dataclass
class ExperimentOutput:
    """What an experiment function returns; `missing` is the reason where it could not be run."""

    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    images: list[tuple[Path, str]] = field(default_factory=list)  # files already written, with titles
    claims: list[PaperClaim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str = ""


@dataclass(frozen=True)
class ExperimentResult:
    """The stored result of an experiment."""

    key: str
    tables: tuple[TextTable, ...] = ()
    figures: tuple[FigureFile, ...] = ()
    claims: tuple[PaperClaim, ...] = ()
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
    def from_dict(cls, document: dict[str, Any]) -> ExperimentResult:
        """The result of `to_dict`, marked as reused."""
        return cls(
            str(document["key"]),
            tuple(map(TextTable.from_dict, document["tables"])),
            tuple(FigureFile.from_dict(figure) for figure in document["figures"]),
            tuple(PaperClaim.from_dict(claim) for claim in document["claims"]),
            tuple(map(str, document["notes"])),
            str(document["missing"]),
            float(document["seconds"]),
            reused=True,
        )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper and its counterpart here."""

    key: str  # names its files
    label: str  # "Table 1", as printed
    title: str
    kind: Literal["measured", "described"]  # diagrams are described
    how: str  # how it is reproduced
    stand_in: str = ""  # what replaces data or models that the paper used
    see: str = ""  # the page that describes it
    said: tuple[str, ...] = ()  # the paper's text about a figure
    printed: TextTable | None = None  # the paper's own numbers, as printed


@dataclass(frozen=True)
class Paper:
    """One of the three papers."""

    name: str  # wan, cornia or liu
    short: str  # author and year
    cite: str
    question: str
    differences: tuple[str, ...]  # differences from the computation as printed
    experiments: tuple[Experiment, ...]

    def experiment(self, key: str) -> Experiment:
        """The experiment of that key."""
        return next(experiment for experiment in self.experiments if experiment.key == key)


@cache
def load_papers() -> dict[str, Paper]:
    """The three papers by name.

    >>> load_papers()["liu"].experiment("table-1").printed.rows[0]
    ('Ground Truth', 'Implicit', '0.3214', '0.3836')
    """
    document = orjson.loads((files("captrial.papers") / "papers.json").read_bytes())
    return {name: _paper(name, entry) for name, entry in document.items()}


def _paper(name: str, entry: dict[str, Any]) -> Paper:
    experiments = tuple(_experiment(part) for part in entry["experiments"])
    return Paper(name, entry["paper"], entry["cite"], entry["question"], tuple(entry["differences"]), experiments)


def _experiment(entry: dict[str, Any]) -> Experiment:
    table = entry.get("table")
    printed = TextTable.from_dict({"name": entry["key"], "title": "In the paper", **table}) if table else None
    plain = {key: value for key, value in entry.items() if key not in ("table", "said")}
    return Experiment(**plain, said=tuple(entry.get("said", ())), printed=printed)
