"""`captrial compete rank`, `report` and `export`: the result as tables, as a page, and as CSV files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.options import (
    Directory,
    ExternalScoresFile,
    IgnoreChanges,
    MetricName,
    Metrics,
    References,
    Split,
    open_competition,
    print_next_step,
)
from captrial.cli.output import JsonFlag, console, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete import RankingResult
    from captrial.compete.ranking.pair_scores import Frequencies

RankChanges = dict[str, tuple[int, int, int]]  # model -> external rank, rank here, difference


def rank(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    frequencies: Annotated[
        str, typer.Option(help="CIDEr's document frequencies: pair, all, or a table made by captrial.")
    ] = "pair",
    replicates: Annotated[int, typer.Option(min=10, help="Bootstrap replicates behind the intervals.")] = 1000,
    against: ExternalScoresFile = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Rank the models by the labels there are, with intervals on every rank."""
    from captrial.compete.ranking.bradley_terry import judgement_summary
    from captrial.compete.ranking.result import rank_models
    from captrial.compete.storage.captioner_runs import captioning_costs

    competition = open_competition(directory, ignore_changes)
    scorer = competition.labelled_scorer(competition.labels(references, split))
    scores = scorer.score(metric, frequencies=_frequencies(frequencies))
    result = rank_models(scores, replicates, competition.manifest.seed)
    changes = _rank_changes(result, against) if against else None
    people = judgement_summary(competition.models, competition.judgements(), scorer, metric)
    costs = captioning_costs(directory)
    if json:
        extra = {"changes": changes, "people": people, "costs": costs}
        print_json({**result.to_json(), **{name: value for name, value in extra.items() if value}})
        return
    _print_ranking(result, changes)
    _print_judgements(people)
    _print_costs(costs)
    again = f" --references {references}" if references else ""
    print_next_step(f"captrial compete report {directory}{again}", "see it with images")


def report(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: Metrics = None,
    against: ExternalScoresFile = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the page. \\[default: report in the directory]")] = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """One self-contained HTML page, and every figure as SVG and CSV."""
    from captrial.report import write_competition_report

    competition = open_competition(directory, ignore_changes)
    labels = competition.labels(references, split)
    folder = out or directory / "report"
    page = write_competition_report(competition, labels, metric or ["cider", "spice"], folder, against)
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
    from captrial.report import export_tables

    competition = open_competition(directory, ignore_changes)
    files = export_tables(competition, competition.labels(references, split), metric or ["cider"], out)
    if json:
        print_json({"files": [str(file) for file in files]})
        return
    console.print(f"{len(files)} tables are in {out}", highlight=False, soft_wrap=True, markup=False)


def _frequencies(name: str) -> Frequencies:
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies

    return name if name in ("pair", "all") else DocumentFrequencies.load(name)


def _rank_changes(result: RankingResult, against: Path) -> RankChanges:
    from captrial.compete.ranking.result import rank_changes, read_external_scores

    changes = rank_changes(result, read_external_scores(against, result.metric))
    if not changes:
        raise InputError(f"{against}: has no {result.metric} of any of these models: {', '.join(result.models)}")
    return changes


def _print_ranking(result: RankingResult, changes: RankChanges | None) -> None:
    columns = ["rank", "model", "score", "95% interval", "ranks", "wins", "Bradley-Terry rank"]
    rows = []
    for row in result.rows():
        interval = f"{row['low']:.4f} - {row['high']:.4f}"
        places = f"{row['rank_low']} - {row['rank_high']}"
        cells = [row["rank"], row["model"], row["score"], interval, places, f"{row['first']:.1%}"]
        rows.append([*cells, row["bradley_terry_rank"]])
    if changes is not None:
        columns += ["external rank", "change"]
        for cells in rows:
            old, _, change = changes.get(str(cells[1]), (None, None, None))
            cells += [old, f"{change:+d}" if change else "0" if change == 0 else None]
    print_table(f"ranking by {result.metric}", columns, rows, result.notes)


def _print_judgements(summary: dict[str, Any]) -> None:
    if not summary:
        return
    ordered = sorted(summary["ranking"], key=lambda row: row["rank"])
    rows = [[row["rank"], row["model"], row["strength"]] for row in ordered]
    print_table(f"ranking by {summary['judgements']} judgements of people", ["rank", "model", "strength"], rows)
    agreements = [[row["metric"], *_tau(row)] for row in summary["agreement"]]
    print_table("agreement with people", ["metric", "Kendall's tau", "95% interval"], agreements)


def _tau(row: dict[str, Any]) -> list[str | None]:
    """Kendall's tau and its interval, each None where it is undefined."""
    interval = None if math.isnan(row["low"]) else f"{row['low']:.3f} - {row['high']:.3f}"
    return [None if math.isnan(row["tau"]) else f"{row['tau']:.3f}", interval]


def _print_costs(costs: dict[str, dict[str, Any]]) -> None:
    if not costs:
        return
    rows = []
    for name, cost in costs.items():
        images, tokens = max(1, cost["images"]), cost["prompt_tokens"] + cost["completion_tokens"]
        each = tokens / images if tokens else None
        rows.append([name, cost["images"], cost["seconds"] / images, cost["peak_megabytes"], each])
    print_table("what captions cost", ["model", "captions", "seconds each", "peak MB", "tokens each"], rows)
