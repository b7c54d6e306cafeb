"""Tables of results, written as CSV, LaTeX and JSON, and means with bootstrap intervals as their cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.files import atomic_write
from captrial.metrics.significance.bootstrap import REPLICATES, interval, resamples

Floats = NDArray[np.float64]
_NAMED = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum"}
_SPECIAL = {char: f"\\{char}" for char in "&%$#_{}"} | {char: f"\\text{name}{{}}" for char, name in _NAMED.items()}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, its percentile interval, and the number of values.

    All are None if there is no value; the interval is None if all values are of one image.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "count": self.count}

    def show(self, factor: float = 1.0, decimals: int = 3) -> str:
        """`0.384 ±0.010` (half of the interval); a dash for each of the two that is None."""
        if self.value is None:
            return "–"
        mean = f"{factor * self.value:.{decimals}f}"
        if self.low is None or self.high is None:
            return f"{mean} ±–"
        return f"{mean} ±{factor * (self.high - self.low) / 2:.{decimals}f}"


def estimate(
    images: Sequence[object], values: Floats, *, replicates: int = REPLICATES, seed: int = 0, level: float = 0.95
) -> list[Estimate]:
    """Means over the rows of `values` (n, m) that are not NaN, a column each; images are resampled, not rows.

    `images` (n,) are the images of the rows; one may have several rows or none. All columns share the resamples, so
    their differences are paired: give the difference as a column of its own.
    """
    if not len(values):
        return [Estimate(None, None, None, 0)] * values.shape[1]
    _, rows = np.unique(np.asarray(images, dtype=str), return_inverse=True)
    defined = ~np.isnan(values)
    sums, counts = (_by_image(part, rows) for part in (np.where(defined, values, 0.0), defined.astype(np.float64)))
    drawn = [_ratio(weights @ sums, weights @ counts) for weights in resamples(len(sums), replicates, seed)]
    means, spread = _ratio(sums.sum(0), counts.sum(0)), np.concatenate(drawn)
    found = []
    for column, mean in enumerate(means):
        if np.isnan(mean):
            found.append(Estimate(None, None, None, 0))
            continue
        count = int(defined[:, column].sum())
        if (counts[:, column] > 0).sum() == 1:  # an image resampled is the same image
            found.append(Estimate(float(mean), None, None, count))
            continue
        limits = interval(spread[:, column], level)
        found.append(Estimate(float(mean), limits.low, limits.high, count))
    return found


def _by_image(values: Floats, rows: NDArray[np.intp]) -> Floats:
    sums = np.zeros((int(rows.max()) + 1, values.shape[1]))
    np.add.at(sums, rows, values)
    return sums


def _ratio(sums: Floats, counts: Floats) -> Floats:
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.nan)


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    """Rows under columns, with an optional row of headings above the columns and notes below.

    `sections` are headings above some rows, by row number; `factor` and `decimals` are how means are shown.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()  # heading, number of columns it spans
    sections: dict[int, str] = field(default_factory=dict)
    factor: float = 1.0
    decimals: int = 3

    def shown(self) -> Iterator[list[str]]:
        """Rows of text; the heading of a section is a row of its own."""
        for number, row in enumerate(self.rows):
            if number in self.sections:
                yield [self.sections[number], *[""] * (len(self.columns) - 1)]
            yield [self.show(cell) for cell in row]

    def parts(self) -> list[Table]:
        """One table a group of columns, each with the first column; the table itself if it has no groups."""
        if len(self.groups) < 2:
            return [self]
        first, found = self.groups[0][1], []
        start = first
        for number, (heading, span) in enumerate(self.groups[1:], 1):
            chosen = [*range(first), *range(start, start + span)]
            rows = tuple(tuple(row[column] for column in chosen) for row in self.rows)
            notes = self.notes if number == len(self.groups) - 1 else ()
            title = f"{self.title}: {heading}"
            columns = tuple(self.columns[column] for column in chosen)
            found.append(replace(self, title=title, columns=columns, rows=rows, notes=notes, groups=()))
            start += span
        return found

    def headings(self) -> list[str]:
        """Columns with the headings above them."""
        above = [heading for heading, span in self.groups for _ in range(span)] or [""] * len(self.columns)
        return [f"{heading} {column}".strip() for heading, column in zip(above, self.columns, strict=True)]

    def show(self, cell: Cell) -> str:
        """One cell as text."""
        if cell is None:
            return "–"
        if isinstance(cell, Estimate):
            return cell.show(self.factor, self.decimals)
        return f"{cell:.{self.decimals}f}" if isinstance(cell, float) else str(cell)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: a record a row; means are fractions with `low`, `high` and `count`."""
        records = []
        section = None
        for number, row in enumerate(self.rows):
            section = self.sections.get(number, section)
            record: dict[str, Any] = {"section": section} if self.sections else {}
            for heading, cell in zip(self.headings(), row, strict=True):
                record[heading] = cell.to_dict() if isinstance(cell, Estimate) else cell
            records.append(record)
        return {"title": self.title, "rows": records, "notes": list(self.notes)}

    def to_csv(self) -> str:
        """Comma-separated values; a mean has three columns: itself, `low` and `high`."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        wide = [any(isinstance(row[index], Estimate) for row in self.rows) for index in range(len(self.columns))]
        names = [
            [name, f"{name} low", f"{name} high"] if w else [name]
            for name, w in zip(self.headings(), wide, strict=True)
        ]
        writer.writerow(["section"] * bool(self.sections) + [name for group in names for name in group])
        section = ""
        for number, row in enumerate(self.rows):
            section = self.sections.get(number, section)
            cells = [_wide(cell) if w else [cell] for cell, w in zip(row, wide, strict=True)]
            writer.writerow([section] * bool(self.sections) + [value for group in cells for value in group])
        return text.getvalue()

    def to_latex(self) -> str:
        """A `booktabs` tabular."""
        columns = len(self.columns)
        lines = [f"\\begin{{tabular}}{{l{'r' * (columns - 1)}}}", r"\toprule"]
        if self.groups:
            lines.append(" & ".join(_spanning(heading, span) for heading, span in self.groups) + r" \\")
        lines += [" & ".join(map(escape, self.columns)) + r" \\", r"\midrule"]
        for number, row in enumerate(self.rows):
            if number in self.sections:
                lines.append(f"\\multicolumn{{{columns}}}{{l}}{{\\textit{{{escape(self.sections[number])}}}}} \\\\")
            lines.append(" & ".join(escape(self.show(cell)) for cell in row) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text as LaTeX."""
    plain = "".join(_SPECIAL.get(char, char) for char in text)
    return plain.replace("±", r"$\pm$").replace("δ", r"$\delta$").replace("∞", r"$\infty$").replace("–", "--")


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Every table as `name.csv` and `name.tex`, all of them in `tables.json`."""
    written = []
    for table in tables:
        for suffix, content in ((".csv", table.to_csv()), (".tex", table.to_latex())):
            written.append(folder / f"{table.name}{suffix}")
            atomic_write(written[-1], content)
    written.append(folder / "tables.json")
    document = {table.name: table.to_dict() for table in tables}
    atomic_write(written[-1], orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
    return written


def _wide(cell: Cell) -> list[Cell]:
    return [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell, None, None]


def _spanning(heading: str, span: int) -> str:
    return escape(heading) if span == 1 else f"\\multicolumn{{{span}}}{{c}}{{{escape(heading)}}}"
