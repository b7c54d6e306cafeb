"""A `ScoreTable` as text for papers and programs: Markdown, LaTeX, CSV and JSON. Systems are rows, metrics columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from captrial.files import csv_table
from captrial.metrics.registry import column_title, scale_of
from captrial.metrics.scoring import ScoreTable
from captrial.metrics.significance.bootstrap import Interval
from captrial.metrics.significance.paired import Comparison

SIGNIFICANT = 0.05
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def shown(value: float, column: str, sign: str = "") -> str:
    """A value as tables print it: scaled and rounded as the registry says."""
    factor, decimals = scale_of(column)
    return f"{factor * value:{sign}.{decimals}f}"


def cell(value: float, interval: Interval | None, column: str) -> str:
    """A value with half of its interval, `138.2 ±2.0`; a dash where there is none."""
    if value != value:
        return "–"
    return shown(value, column) + (f" ±{shown((interval.high - interval.low) / 2, column)}" if interval else "")


def cells(table: ScoreTable, seed: int = 0) -> list[list[str]]:
    """A row a system: its name, then every column with its interval (none over a single image)."""
    intervals = _intervals(table, seed)
    return [
        [name, *(cell(scores[column].corpus, intervals[name].get(column), column) for column in table.columns)]
        for name, scores in table.scores.items()
    ]


def winner(table: ScoreTable, row: Comparison) -> str | None:
    """The better system of a pair, if both tests say so."""
    if max(row.bootstrap_p, row.permutation_p) >= SIGNIFICANT:
        return None
    return row.first if (row.difference > 0) == (table.better(row.metric) == "higher") else row.second


def comparisons(table: ScoreTable, seed: int = 0) -> list[Comparison]:
    """Paired tests on the columns that judge captions; none over a single image."""
    return [row for row in table.compare(seed=seed) if table.better(row.metric)] if len(table.ids) > 1 else []


def wins(table: ScoreTable, comparisons: Sequence[Comparison]) -> list[list[str]]:
    """A row a system: its name, then `won–undecided–lost` against the others by every column that was tested."""
    columns = dict.fromkeys(row.metric for row in comparisons)
    counts = {(name, column): [0, 0, 0] for name in table.states for column in columns}
    for row in comparisons:
        better = winner(table, row)
        for name in (row.first, row.second):
            counts[name, row.metric][1 if better is None else 0 if better == name else 2] += 1
    return [[name, *("–".join(map(str, counts[name, column])) for column in columns)] for name in table.states]


def differences(table: ScoreTable, comparisons: Sequence[Comparison]) -> list[list[str]]:
    """A row a system: its name, then how much more than each system it has on one column; `*` where that is decided."""
    signed: dict[tuple[str, str], str] = {}
    for row in comparisons:
        mark = "" if winner(table, row) is None else "*"
        signed[row.first, row.second] = shown(row.difference, row.metric, "+") + mark
        signed[row.second, row.first] = shown(-row.difference, row.metric, "+") + mark
    return [[name, *(signed.get((name, other), "") for other in table.states)] for name in table.states]


def to_markdown(table: ScoreTable, seed: int = 0) -> str:
    """A Markdown table with the notes below it."""
    head = ["system", *map(column_title, table.columns)]
    rows = [[text.replace("|", "\\|") for text in row] for row in cells(table, seed)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", *_notes(table), ""])


def to_latex(table: ScoreTable, seed: int = 0) -> str:
    """A tabular for the booktabs package; notes are comments."""
    head = ["", *map(column_title, table.columns)]
    rows = [[_latex(text) for text in row] for row in (head, *cells(table, seed))]
    lines = [" & ".join(row) + r" \\" for row in rows]
    top = rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}"
    body = [top, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*body, *(f"% {note}" for note in _notes(table)), ""])


def to_csv(table: ScoreTable, seed: int = 0) -> str:
    """`system`, and three columns a metric: value and interval (`cider`, `cider_low`, `cider_high`); fractions."""
    intervals, columns = _intervals(table, seed), table.columns
    head = ["system", *(name for column in columns for name in (column, f"{column}_low", f"{column}_high"))]
    rows: list[Sequence[object]] = []
    for name, scores in table.scores.items():
        triples = (_triple(scores[column].corpus, intervals[name].get(column)) for column in columns)
        rows.append([name, *("" if value is None else value for triple in triples for value in triple)])
    return csv_table(head, rows).decode()


def to_json(table: ScoreTable, seed: int = 0) -> str:
    """Values with intervals by system, and the paired tests with their p-values; fractions, null where undefined."""
    intervals = _intervals(table, seed)
    systems = {
        name: {
            column: dict(zip(("value", "low", "high"), _triple(of.corpus, intervals[name].get(column)), strict=True))
            for column, of in scores.items()
        }
        for name, scores in table.scores.items()
    }
    document = {
        "images": len(table.ids),
        "systems": systems,
        "comparisons": [_comparison(table, row) for row in comparisons(table, seed)],
        "notes": table.notes,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


FORMATS: dict[str, Callable[[ScoreTable, int], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "json": to_json,
}
"""Writers by the name that `captrial score --format` takes."""


def _comparison(table: ScoreTable, row: Comparison) -> dict[str, Any]:
    return {
        "metric": row.metric,
        "first": row.first,
        "second": row.second,
        "difference": row.difference,
        "low": row.interval.low,
        "high": row.interval.high,
        "bootstrap_p": row.bootstrap_p,
        "permutation_p": row.permutation_p,
        "better": winner(table, row),
    }


def _intervals(table: ScoreTable, seed: int) -> dict[str, dict[str, Interval]]:
    return table.intervals(seed=seed) if len(table.ids) > 1 else {name: {} for name in table.scores}


def _triple(value: float, interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    low, high = (interval.low, interval.high) if interval else (None, None)
    return (None, None, None) if value != value else (value, low, high)


def scales_note(columns: Sequence[str]) -> str:
    """Which columns are printed x100, as the beginning of a note."""
    plain = [column for column in columns if scale_of(column)[0] == 1]
    if len(plain) == len(columns):
        return ""
    return f"x100 except {', '.join(plain)}; " if plain else "x100; "


def _notes(table: ScoreTable) -> list[str]:
    half = "± half of the 95% interval, images resampled" if len(table.ids) > 1 else "no interval over one image"
    return [f"{len(table.ids)} images; {scales_note(table.columns)}{half}", *table.notes]


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text).replace("±", r"$\pm$").replace("–", "--")
