"""A trial as one self-contained HTML page: rankings by each judge corrected by people, and judges beside people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from captrial.files import atomic_write, write_csv
from captrial.folders import output_folder
from captrial.html import Templates
from captrial.report import charts
from captrial.version import __version__

_TEMPLATES = Templates("captrial.report", trim=True)


def write_trial_report(found: Mapping[str, Any], folder: Path, name: str, *, overwrite: bool = False) -> Path:
    """Write `index.html` and figures of a trial's results (`trial.json`) into the folder; returns the page.

    A folder of something else, or with files that were changed since, is used only with `overwrite`.
    """
    rankings = {judge: result["ranking"] for judge, result in found["judges"].items() if result["ranking"]}
    if not found["judges"] and found["people"]:
        rankings["people"] = found["people"]
    drawn = {judge: _chart(number, rows) for number, (judge, rows) in enumerate(rankings.items(), 1)}
    with output_folder(folder, overwrite=overwrite) as staging:
        for chart in drawn.values():
            chart.write(staging / "figures")
            write_csv(staging / "figures" / f"{chart.name}.csv", chart.columns, chart.rows)
        facts = {"name": name, "version": __version__, "found": found}
        page = _TEMPLATES.render("trial.html", rankings=rankings, charts=drawn, **facts)
        atomic_write(staging / "index.html", page)
    return folder / "index.html"


def _chart(number: int, rows: list[dict[str, Any]]) -> charts.Chart:
    shown = [(row["model"], row["score"], _bound(row["low"]), _bound(row["high"])) for row in rows]
    return charts.intervals(f"ranking_{number}", "Share of comparisons won", shown, "share of comparisons won")


def _bound(value: float | None) -> float:
    return np.nan if value is None else value
