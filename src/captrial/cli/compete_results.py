"""`captrial compete rank`, `report` and `export`: the result as tables, as a page, and as CSV files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.compete_options import (
    Directory,
    ExternalScoresFile,
    IgnoreChanges,
    MetricName,
    Metrics,
    References,
    open_competition,
)
from captrial.cli.compete_preferences import (
    Control,
    OptionalDirectory,
    PreferenceFile,
    PreferenceOptions,
    WordsFile,
    by_preferences,
    print_preferences,
    show_ranking,
)
from captrial.cli.output import (
    ClipOption,
    JsonFlag,
    ObjectsOption,
    OverwriteFlag,
    ReferencesSplit,
    console,
    interval_text,
    print_json,
    print_next_step,
    print_table,
    print_warning,
    ranking_cells,
    share_text,
)
from captrial.compete.selection.design import TARGETS, target_help
from captrial.errors import InputError
from captrial.metrics.registry import column_title
from captrial.metrics.score_formats import shown

if TYPE_CHECKING:
    from captrial.compete import Competition, RankingResult
    from captrial.compete.ranking.pair_scores import Frequencies
    from captrial.compete.ranking.result import PoolRanking, RankChange

RANKING_COLUMNS = ["rank", "model", "score", "95% interval", "ranks", "first"]

RankChanges = dict[str, "RankChange"]  # by model


def rank(
    directory: OptionalDirectory = None,
    references: References = None,
    split: ReferencesSplit = None,
    metric: MetricName = None,
    target: Annotated[
        str | None, typer.Option(help=f"{target_help()}. \\[default: both, where a sample of the pool is labelled]")
    ] = None,
    frequencies: Annotated[
        str | None,
        typer.Option(
            help="CIDEr's document frequencies: pair, all (of all labelled images), or a table made by captrial. "
            "\\[default: pair, but all where labels are partial and for the pool]"
        ),
    ] = None,
    first_sentence: Annotated[
        bool, typer.Option("--first-sentence", help="Score every caption's first sentence only.")
    ] = False,
    max_words: Annotated[int | None, typer.Option(min=1, help="Score the first N words of every caption only.")] = None,
    objects: ObjectsOption = None,
    clip: ClipOption = None,
    external_scores: ExternalScoresFile = None,
    preferences: PreferenceFile = None,
    control: Control = None,
    words: WordsFile = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Rank the models by the labels there are, with intervals on every rank."""
    from captrial.compete.ranking.agreement_with_people import judgement_summary
    from captrial.compete.ranking.caption_length import CaptionCut, default_metric, length_notes
    from captrial.compete.storage.captioner_runs import captioning_costs

    options = PreferenceOptions.of(preferences, control, words)
    competition = open_competition(directory, ignore_changes) if directory else None
    judgements = options.judgements(competition)
    if competition is None or directory is None or by_preferences(competition, metric, references):
        show_ranking(options.rank(competition, judgements), json)
        return
    competition.cut = CaptionCut(first_sentence, max_words)
    competition.use_metric(objects, clip)
    labels = competition.labels(references, split)
    table = _frequencies(frequencies)
    wanted = _targets(target, competition)
    scorer = competition.labelled_scorer(labels)
    named, metric = metric, metric or default_metric(scorer)
    result = competition.rank(metric, labels, table)
    pool = competition.rank_pool(metric, labels, table or "all") if "pool" in wanted else None
    changes = _rank_changes(result, external_scores) if external_scores else None
    ranked = options.rank_if_possible(competition, judgements)
    people = judgement_summary(ranked, judgements, scorer, metric) if ranked else {}
    costs = captioning_costs(directory)
    lengths = length_notes(scorer, metric)
    if lengths and not named:
        lengths.append(f"ranked by {metric}, the default for captions of such lengths; --metric names another")
    if json:
        extra = {"changes": changes, "people": people, "costs": costs, "lengths": lengths}
        shown = {**result.to_json(), **(pool.to_json() if pool else {})}
        print_json({**shown, **{name: value for name, value in extra.items() if value}})
        return
    if "discrepancy" in wanted:
        _print_ranking(result, changes)
    if pool is not None:
        _print_pool(pool)
    for note in lengths:
        print_warning(note)
    _print_judgements(people)
    _print_costs(costs)
    again = f" --references {references}" if references else ""
    print_next_step(f"captrial compete report {directory}{again}", "see it with images")


def report(
    directory: OptionalDirectory = None,
    references: References = None,
    split: ReferencesSplit = None,
    metrics: Metrics = None,
    external_scores: ExternalScoresFile = None,
    preferences: PreferenceFile = None,
    control: Control = None,
    words: WordsFile = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the page. \\[default: report in the directory]")] = None,
    ignore_changes: IgnoreChanges = False,
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """One self-contained HTML page, and every figure as SVG and CSV."""
    from captrial.report import write_competition_report, write_preference_report

    options = PreferenceOptions.of(preferences, control, words)
    competition = open_competition(directory, ignore_changes) if directory else None
    folder = out or (directory or Path()) / "report"
    if competition is None or by_preferences(competition, metrics, references):
        judgements = options.judgements(competition)
        name = (directory or preferences or folder).name
        ranked = options.rank(competition, judgements)
        page = write_preference_report(ranked, judgements, folder, name, overwrite=overwrite)
    else:
        labels = competition.labels(references, split)
        names = (
            metrics.split(",")
            if metrics
            else list(dict.fromkeys([competition.default_metric(labels), "cider", "spice"]))
        )
        page = write_competition_report(competition, labels, names, folder, external_scores, overwrite=overwrite)
    if json:
        print_json({"page": str(page)})
        return
    console.print(f"The report is {page}", highlight=False, soft_wrap=True, markup=False)


def export(
    directory: Directory,
    out: Annotated[Path, typer.Argument(help="Folder for the tables.", show_default=False)],
    references: References = None,
    split: ReferencesSplit = None,
    metrics: Metrics = None,
    ignore_changes: IgnoreChanges = False,
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """The selection, the captions of the selected images and, where labelled, all results as CSV."""
    from captrial.report import export_tables

    competition = open_competition(directory, ignore_changes)
    labels = competition.labels(references, split)
    names = metrics.split(",") if metrics else [competition.default_metric(labels)]
    files = export_tables(competition, labels, names, out, overwrite=overwrite)
    if json:
        print_json({"files": [str(file) for file in files]})
        return
    console.print(f"{len(files)} tables are in {out}", highlight=False, soft_wrap=True, markup=False)


def _frequencies(name: str | None) -> Frequencies | None:
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies

    return name if name in (None, "pair", "all") else DocumentFrequencies.load(name)


def _targets(target: str | None, competition: Competition) -> tuple[str, ...]:
    """The targets to print; without one, the pool's as well where there is a sample of it."""
    if target is not None and target not in TARGETS:
        raise InputError(f"no target {target!r}; choose from {', '.join(TARGETS)}")
    sampled = competition.manifest.sample is not None and bool(competition.manifest.sample.waves)
    return (target,) if target else ("discrepancy", "pool") if sampled else ("discrepancy",)


def _rank_changes(result: RankingResult, file: Path) -> RankChanges:
    from captrial.compete.ranking.result import rank_changes, read_external_scores

    changes = rank_changes(result, read_external_scores(file, result.metric))
    if not changes:
        raise InputError(f"{file}: has no {result.metric} of any of these models: {', '.join(result.models)}")
    return changes


def _print_ranking(result: RankingResult, changes: RankChanges | None) -> None:
    title = column_title(result.metric)
    columns = [*RANKING_COLUMNS, title, "Bradley-Terry rank"]
    rows = [
        [*_ranking_cells(row), _value(row["value"], result.metric), row["bradley_terry_rank"]] for row in result.rows()
    ]
    if changes is not None:
        columns += ["external rank", "change"]
        for cells in rows:
            old, _, change = changes.get(str(cells[1]), (None, None, None))
            cells += [old, f"{change:+g}" if change else "0" if change == 0 else None]
    about = [
        f"score: from the ratios of all pairs; twice the score is about twice the {title} where captions differ most",
        f"{title}: the plain mean over the model's own selected images; ranks: 95% interval; first: share of resamples",
        f"target: {TARGETS['discrepancy']}; document frequencies: {result.table}",
    ]
    print_table(f"ranking by {title}, where captions differ most", columns, rows, [*about, *result.notes])
    _print_conclusion(result.conclusion())


def _print_pool(found: PoolRanking) -> None:
    about = [
        f"target: {TARGETS['pool']}",
        f"{found.labels} labels for {found.images} images; document frequencies: {found.table}",
    ]
    rows = [
        [
            *_ranking_cells(row, found.metric),
            _value(row["mean"], found.metric),
            row["mean_rank"],
        ]
        for row in found.rows()
    ]
    title = column_title(found.metric)
    columns = [title if column == "score" else column for column in RANKING_COLUMNS] + ["plain mean", "its rank"]
    about.append(
        "plain mean: over the labelled images as they are; finds the winner with the fewest labels, but is biased"
    )
    print_table(f"ranking by {title}, on the whole pool", columns, rows, [*about, *found.notes])
    _print_conclusion(found.conclusion())


def _print_conclusion(sentence: str) -> None:
    console.print(sentence, style="bold", soft_wrap=True, highlight=False, markup=False)


def _value(value: float | None, metric: str) -> str | None:
    return None if value is None else shown(value, metric)


def _ranking_cells(row: dict[str, Any], metric: str | None = None) -> list[object]:
    """The cells of every ranking; the score as tables of its `metric` print it, or with four digits."""
    cells = ranking_cells(row, digits=4)
    if metric is not None:
        bounds = [_value(row[name], metric) for name in ("low", "high")]
        cells[2:4] = [_value(row["score"], metric), None if None in bounds else " - ".join(map(str, bounds))]
    return [*cells, share_text(row["first"])]


def _print_judgements(summary: dict[str, Any]) -> None:
    if not summary:
        return
    print_preferences(summary)
    agreements = [
        [
            row["metric"],
            None if math.isnan(row["tau"]) else f"{row['tau']:.3f}",
            interval_text(row["low"], row["high"]),
        ]
        for row in summary["agreement"]
    ]
    print_table("agreement with people", ["metric", "Kendall's tau", "95% interval"], agreements)


def _print_costs(costs: dict[str, dict[str, Any]]) -> None:
    if not costs:
        return
    rows = []
    for name, cost in costs.items():
        images, tokens = max(1, cost["images"]), cost["prompt_tokens"] + cost["completion_tokens"]
        each = tokens / images if tokens else None
        rows.append([name, cost["images"], cost["seconds"] / images, cost["peak_megabytes"], each])
    print_table("what captions cost", ["model", "captions", "seconds each", "peak MB", "tokens each"], rows)
