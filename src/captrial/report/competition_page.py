"""A competition as one self-contained HTML page, with every figure as SVG and CSV beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from captrial.compete import Competition, Labels
from captrial.compete.ranking.caption_length import length_notes
from captrial.compete.ranking.result import read_external_scores
from captrial.compete.storage.creation import verbosity_note
from captrial.files import atomic_write, write_csv
from captrial.folders import output_folder
from captrial.html import Templates
from captrial.metrics.registry import column_title
from captrial.metrics.score_formats import shown
from captrial.report.csv_export import write_tables
from captrial.report.sections import SECTIONS, ReportData, ReportSection
from captrial.version import __version__

_TEMPLATES = Templates("captrial.report", trim=True)


def write_competition_report(
    competition: Competition,
    labels: Labels,
    metrics: Sequence[str],
    folder: Path,
    external_scores: Path | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write `index.html`, `figures/*.svg` and `tables/*.csv` into the folder; returns the page.

    `external_scores` is a file (see `captrial.compete.ranking.result.read_external_scores`). A folder of
    something else, or with files that were changed since, is used only with `overwrite`.
    """
    competition.labelled_scorer(labels)  # an error before anything is written
    data = ReportData(competition, labels, metrics, read_external_scores(external_scores) if external_scores else {})
    with output_folder(folder, overwrite=overwrite) as staging:
        sections = [_write_section(section, data, staging) for section in SECTIONS]
        write_tables(competition, labels, metrics, staging / "tables")
        shown = [section for section in sections if section]
        atomic_write(staging / "index.html", _TEMPLATES.render("competition.html", sections=shown, **_facts(data)))
    return folder / "index.html"


def gallery_script() -> str:
    """The one script of the page, for a content security policy that allows it by its hash."""
    return str(_TEMPLATES.source("gallery.js"))


def _write_section(section: ReportSection, data: ReportData, folder: Path) -> dict[str, Any] | None:
    """Write a section's figures; return its key, title and HTML."""
    content = section.build(data)
    if content is None:
        return None
    for chart in content.charts:
        chart.write(folder / "figures")
        write_csv(folder / "figures" / f"{chart.name}.csv", chart.columns, chart.rows)
    charts = {chart.name: chart for chart in content.charts}
    html = _TEMPLATES.render(f"sections/{section.key}.html", charts=charts, **_facts(data), **content.values)
    return {"key": section.key, "title": section.title, "html": Markup(html)}


def _facts(data: ReportData) -> dict[str, Any]:
    """Values that the page and all its sections share."""
    competition = data.competition
    note, wanted = verbosity_note(competition.manifest), competition.label_sample().to_label()
    return {
        "name": competition.directory.resolve().name,
        "version": __version__,
        "manifest": competition.manifest,
        "models": competition.models,
        "images": len(wanted),
        "labelled": sum(image in data.labels.references for image in wanted),
        "pairs": len(competition.pairs),
        "rankings": data.rankings,
        "pool": next(iter(data.pool_rankings.values()), None),
        "changes": data.changes,
        "notes": [*([note] if note else []), *length_notes(data.scorer, data.metrics[0])],
        "column_title": column_title,
        "shown": shown,
    }
