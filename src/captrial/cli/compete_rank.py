"""`captrial compete rank`: who is best by the labels there are, how sure that is, and what captions cost."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.compete_captioning import costs_of, tokens
from captrial.cli.compete_options import (
    Directory,
    IgnoreChanges,
    MetricName,
    References,
    Split,
    open_competition,
    say_next,
)
from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete import Competition, RankingResult
    from captrial.compete.ranking.pair_scores import Frequencies, PairScorer

Changes = dict[str, tuple[int, int, int]]  # model -> old rank, new rank, old - new


def rank(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    frequencies: Annotated[
        str, typer.Option(help="CIDEr's document frequencies: pair, all, or a table made by captrial.")
    ] = "pair",
    replicates: Annotated[int, typer.Option(min=10, help="Bootstrap replicates behind the intervals.")] = 1000,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Scores elsewhere, to show how ranks changed: what `captrial score --json` printed, or {model: score}."
        ),
    ] = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Rank the models by the labels there are, with intervals on every rank."""
    from captrial.compete import rank_models

    competition = open_competition(directory, ignore_changes)
    scorer = competition.labelled_scorer(competition.labels(references, split))
    found = rank_models(
        scorer.score(metric, frequencies=_frequencies(frequencies)), replicates, competition.manifest.seed
    )
    changes = _changes(found, against) if against else None
    people = _people(competition, scorer, metric)
    costs = costs_of(directory)
    if json:
        extra = {"changes": changes, "people": people, "costs": costs}
        print_json({**found.to_json(), **{name: value for name, value in extra.items() if value}})
        return
    _print_ranking(found, changes)
    _print_people(people)
    _print_costs(costs)
    again = f" --references {references}" if references else ""
    say_next(f"captrial compete report {directory}{again}", "see it with images")


def _frequencies(name: str) -> Frequencies:
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies

    return name if name in ("pair", "all") else DocumentFrequencies.load(name)


def _changes(found: RankingResult, against: Path) -> Changes:
    from captrial.compete.ranking.result import rank_changes, read_external_scores

    scores = read_external_scores(against, found.metric)
    changes = rank_changes(found, scores)
    if not changes:
        raise InputError(f"{against}: has no {found.metric} of any of these models: {', '.join(found.models)}")
    return changes


def _people(competition: Competition, scorer: PairScorer, metric: str) -> dict[str, Any]:
    """What pairwise judgements say, where there are any."""
    from captrial.compete.ranking.bradley_terry import metric_agreement, rank_by_judgements
    from captrial.compete.ranking.perron import ranks

    judgements = competition.judgements()
    if not judgements:
        return {}
    strengths = rank_by_judgements(competition.models, judgements).strength
    places = ranks(strengths)
    metrics = dict.fromkeys([metric, "cider", "rouge_l", "bleu_4"])
    return {
        "judgements": len(judgements),
        "ranking": [
            {"model": name, "strength": float(strengths[index]), "rank": int(places[index])}
            for index, name in enumerate(competition.models)
        ],
        "agreement": [asdict(metric_agreement(scorer.score(name), judgements)) for name in metrics],
    }


def _print_ranking(found: RankingResult, changes: Changes | None) -> None:
    columns = ["rank", "model", "score", "95% interval", "ranks", "wins", "Bradley-Terry rank"]
    rows = []
    for row in found.rows():
        interval = f"{row['low']:.4f} - {row['high']:.4f}"
        places = f"{row['rank_low']} - {row['rank_high']}"
        cells = [row["rank"], row["model"], row["score"], interval, places, f"{row['first']:.1%}"]
        rows.append([*cells, row["bradley_terry_rank"]])
    if changes is not None:
        columns += ["old rank", "change"]
        for cells in rows:
            old, _, change = changes.get(str(cells[1]), (None, None, None))
            cells += [old, f"{change:+d}" if change else "0" if change == 0 else None]
    print_table(f"ranking by {found.metric}", columns, rows, found.notes)


def _print_people(people: dict[str, Any]) -> None:
    if not people:
        return
    ordered = sorted(people["ranking"], key=lambda row: row["rank"])
    rows = [[row["rank"], row["model"], row["strength"]] for row in ordered]
    print_table(f"ranking by {people['judgements']} judgements of people", ["rank", "model", "strength"], rows)
    agreements = [[row["metric"], *_tau(row)] for row in people["agreement"]]
    print_table("agreement with people", ["metric", "Kendall's tau", "95% interval"], agreements)


def _tau(row: dict[str, Any]) -> list[str | None]:
    """Kendall's tau and its interval, each None where there is none."""
    interval = None if math.isnan(row["low"]) else f"{row['low']:.3f} - {row['high']:.3f}"
    return [None if math.isnan(row["tau"]) else f"{row['tau']:.3f}", interval]


def _print_costs(costs: dict[str, dict[str, Any]]) -> None:
    """What captions cost, where captioners were run here."""
    if costs:
        rows = [
            [name, cost["images"], cost["seconds"] / max(1, cost["images"]), cost["peak_megabytes"], tokens(cost)]
            for name, cost in costs.items()
        ]
        print_table("what captions cost", ["model", "captions", "seconds each", "peak MB", "tokens each"], rows)
