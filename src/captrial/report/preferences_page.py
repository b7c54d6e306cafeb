"""Preferences for readers: a section of a competition's page, or a page of its own where there are judgements alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from captrial.compete import Judgement, PreferenceResult
from captrial.compete.analysis import flip_judgements, plan_judgements
from captrial.files import atomic_write, write_csv
from captrial.folders import output_folder
from captrial.html import Templates
from captrial.report import charts
from captrial.report.charts import Chart
from captrial.version import __version__

MOST_IN_MATRIX = 25  # models; a larger matrix cannot be read
_TEMPLATES = Templates("captrial.report", trim=True)


def preference_content(
    result: PreferenceResult, judgements: Sequence[Judgement]
) -> tuple[dict[str, Any], Sequence[Chart]]:
    """What `sections/preferences.html` uses, and its figures."""
    rows, names = result.rows(), [result.models[index] for index in result.order]
    shown = [(row["model"], row["score"], _bound(row["low"]), _bound(row["high"])) for row in rows]
    title = "Share of comparisons won, with 95% intervals"
    drawn = [charts.intervals("preferences", title, shown, "share of comparisons won")]
    if len(names) <= MOST_IN_MATRIX:
        rates = result.fit.win_rates()[np.ix_(result.order, result.order)].copy()
        np.fill_diagonal(rates, np.nan)
        title = "Share of comparisons that the row wins against the column"
        drawn.append(charts.matrix("preference_pairs", title, names, rates, 0.5, False))
    complete = any(judgement.complete for judgement in judgements)
    values = {
        "found": result.to_json(),
        "plan": plan_judgements(judgements, result.models) if complete else None,
        "flip": flip_judgements(result),
    }
    return values, drawn


def write_preference_report(
    result: PreferenceResult, judgements: Sequence[Judgement], folder: Path, name: str, *, overwrite: bool = False
) -> Path:
    """Write `index.html`, figures and tables for judgements alone; returns the page.

    A folder of something else, or with files that were changed since, is used only with `overwrite`.
    """
    values, drawn = preference_content(result, judgements)
    figures = {chart.name: chart for chart in drawn}
    with output_folder(folder, overwrite=overwrite) as staging:
        for chart in drawn:
            chart.write(staging / "figures")
            write_csv(staging / "figures" / f"{chart.name}.csv", chart.columns, chart.rows)
        rows = result.rows()
        write_csv(staging / "tables" / "ranking_preferences.csv", list(rows[0]), [list(row.values()) for row in rows])
        section = Markup(_TEMPLATES.render("sections/preferences.html", charts=figures, **values))
        facts = {"name": name, "version": __version__, "control": result.settings.control}
        page = _TEMPLATES.render("preferences.html", section=section, **facts, **values)
        atomic_write(staging / "index.html", page)
    return folder / "index.html"


def _bound(value: float | None) -> float:
    return np.nan if value is None else value
