"""`captrial compete report` and `captrial compete export`: the result as a page, and as tables for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.compete_options import Directory, IgnoreChanges, References, Split, open_competition
from captrial.cli.output import JsonFlag, console, print_json

Metrics = Annotated[
    list[str] | None, typer.Option("--metric", help="Once a metric. \\[default: cider and, once labelled, spice]")
]


def report(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: Metrics = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Scores elsewhere to compare with: what `captrial score --json` printed, or {model: score}."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the page. \\[default: report in the directory]")] = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """One self-contained HTML page, and every figure as SVG and CSV."""
    from captrial.report.competition_page import write_competition_report

    competition = open_competition(directory, ignore_changes)
    labels = competition.labels(references, split)
    page = write_competition_report(
        competition, labels, metric or ["cider", "spice"], out or directory / "report", against
    )
    if json:
        print_json({"page": str(page)})
        return
    console.print(f"The report is {page}", highlight=False, soft_wrap=True, markup=False)


def export(
    directory: Directory,
    out: Annotated[Path, typer.Argument(help="Folder for the tables.", show_default=False)],
    references: References = None,
    split: Split = None,
    metric: Metrics = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """The selection, the captions of the selected images and, where labelled, all results as CSV."""
    from captrial.report.csv_export import export_tables

    competition = open_competition(directory, ignore_changes)
    files = export_tables(competition, competition.labels(references, split), metric or ["cider"], out)
    if json:
        print_json({"files": [str(file) for file in files]})
        return
    console.print(f"{len(files)} tables are in {out}", highlight=False, soft_wrap=True, markup=False)
