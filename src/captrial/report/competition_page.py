"""A competition as one self-contained HTML page, and every figure as SVG and CSV beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from captrial.compete import Competition, RankingResult, rank_models
from captrial.compete.analysis import statistics as facts
from captrial.compete.analysis.flip import flip_report
from captrial.compete.analysis.planner import PlanSettings, plan_labels
from captrial.compete.analysis.repetition import ModelRepetition, find_repetition
from captrial.compete.analysis.stability import Stability, stability
from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
from captrial.compete.ranking.result import ExternalScores, rank_changes, read_external_scores
from captrial.compete.storage.creation import verbosity_note
from captrial.compete.storage.labels import Labels
from captrial.files import atomic_write, write_csv
from captrial.report import charts
from captrial.report.charts import Chart
from captrial.report.csv_export import export_tables
from captrial.report.gallery import gallery_data
from captrial.report.templates import render
from captrial.version import __version__

TITLES = {"cider": "CIDEr", "spice": "SPICE", "rouge_l": "ROUGE-L", "bleu_4": "BLEU-4", "meteor": "METEOR", "nw": "NW"}


def write_competition_report(
    competition: Competition, labels: Labels, metrics: Sequence[str], folder: Path, against: Path | None = None
) -> Path:
    """Write `index.html`, `figures/*.svg` and `tables/*.csv` into the folder; returns the page."""
    scorer = competition.labelled_scorer(labels)
    elsewhere = read_external_scores(against) if against else {}
    pairwise_scores = [scorer.score(metric) for metric in metrics]
    rankings = [rank_models(pairwise, seed=competition.manifest.seed) for pairwise in pairwise_scores]
    curves = [stability(lambda k, metric=metric: scorer.score(metric, k)) for metric in metrics]  # type: ignore[misc]
    repeated = find_repetition(competition.pool)
    charts = _charts(competition, scorer, pairwise_scores, rankings, curves, repeated, elsewhere)
    for chart in charts.values():
        chart.write(folder / "figures")
        write_csv(folder / "figures" / f"{chart.name}.csv", chart.columns, chart.rows)
    export_tables(competition, labels, metrics, folder / "tables")
    data = {**gallery_data(competition, labels, pairwise_scores), "titles": TITLES}
    words = _words(competition, scorer, pairwise_scores, rankings, curves, repeated, elsewhere)
    page = render("competition.html", charts=charts, gallery=orjson.dumps(data).decode(), titles=TITLES, **words)
    atomic_write(folder / "index.html", page)
    return folder / "index.html"


def title_of(metric: str) -> str:
    """A metric's name as papers print it."""
    return TITLES.get(metric, metric)


def _charts(
    competition: Competition,
    scorer: PairScorer,
    pairwise_scores: Sequence[PairwiseScores],
    rankings: Sequence[RankingResult],
    curves: Sequence[Stability],
    repeated: Sequence[ModelRepetition],
    elsewhere: ExternalScores,
) -> dict[str, Chart]:
    drawn = [stability_chart(curves), repetition_chart(repeated)]
    for found in rankings:
        drawn += [ranking_chart(found), *matrix_charts(found)]
    drawn.append(_outcome_chart(scorer, pairwise_scores[0]))
    if elsewhere:
        drawn += _elsewhere_charts(competition, scorer, [found.metric for found in rankings], elsewhere)
    classes = facts.class_distribution(map(competition.class_of, competition.selected_images()))
    if classes:
        shown = dict(list(classes.items())[:40])
        parts = {"images": list(shown.values())}
        drawn.append(charts.bars("classes", "Classes of the selected images", parts, list(shown), "images"))
    return {chart.name: chart for chart in drawn}


def ranking_chart(found: RankingResult) -> Chart:
    """The global ranking with its intervals (Wan 2022 Fig. 9)."""
    rows = [(row["model"], row["score"], row["low"], row["high"]) for row in found.rows()]
    title = f"Global ranking with 95% intervals, {title_of(found.metric)}"
    return charts.intervals(f"ranking_{found.metric}", title, rows, f"ranking score, {title_of(found.metric)}")


def matrix_charts(found: RankingResult) -> list[Chart]:
    """F (Wan 2022 Fig. 7 and 8), and how probable it is that the row beats the column; best models first."""
    order = found.order
    names = [found.models[index] for index in order]
    f = found.dominance.f[np.ix_(order, order)].copy()
    np.fill_diagonal(f, np.nan)
    beats = found.replicates.beats[np.ix_(order, order)]
    title = title_of(found.metric)
    return [
        charts.matrix(f"dominance_{found.metric}", f"Pairwise dominance, {title}", names, f, 1.0, True),
        charts.matrix(
            f"beats_{found.metric}", f"Probability that the row beats the column, {title}", names, beats, 0.5, False
        ),
    ]


def stability_chart(curves: Sequence[Stability]) -> Chart:
    """SRCC of the top-k ranking against k (Wan 2022 Fig. 10)."""
    series = {title_of(curve.metric): (curve.k, curve.srcc) for curve in curves}
    return charts.lines("stability", "Top-k ranking against the full one", series, ("k", "SRCC"))


def repetition_chart(repeated: Sequence[ModelRepetition]) -> Chart:
    """Captions that got stuck, by model (Wan 2022 Fig. 12)."""
    ordered = sorted(repeated, key=lambda part: -part.repeated)
    parts = {"captions": [part.repeated for part in ordered]}
    names = [part.model for part in ordered]
    return charts.bars("repetition", "Captions with a word three or more times in a row", parts, names, "captions")


def _outcome_chart(scorer: PairScorer, pairwise: PairwiseScores) -> Chart:
    found = facts.pair_outcomes(pairwise, facts.right_threshold(scorer, pairwise.metric).value)
    parts = {
        "both right": [outcome.both for outcome in found],
        "only the first": [outcome.first for outcome in found],
        "only the second": [outcome.second for outcome in found],
        "neither": [outcome.neither for outcome in found],
    }
    names = [" – ".join(outcome.models) for outcome in found]
    return charts.bars("outcomes", "Who was right on the selected images", parts, names, "images")


def _elsewhere_charts(
    competition: Competition, scorer: PairScorer, metrics: Sequence[str], elsewhere: ExternalScores
) -> list[Chart]:
    drawn: list[Chart] = []
    for metric in metrics:
        rows = [
            (name, elsewhere[name][metric], scorer.score_on_own_images(metric, model))
            for model, name in enumerate(competition.models)
            if metric in elsewhere.get(name, {})
        ]
        if rows:
            rows.sort(key=lambda row: -row[1])
            title = f"{title_of(metric)} elsewhere and on D"
            ends = ("elsewhere", "on D")
            drawn.append(charts.dumbbells(f"elsewhere_{metric}", title, rows, ends, title_of(metric)))
    return drawn


def _words(
    competition: Competition,
    scorer: PairScorer,
    pairwise_scores: Sequence[PairwiseScores],
    rankings: Sequence[RankingResult],
    curves: Sequence[Stability],
    repeated: Sequence[ModelRepetition],
    elsewhere: ExternalScores,
) -> dict[str, Any]:
    """Everything the page says in words and tables."""
    images = competition.selected_images()
    changes = {
        found.metric: rank_changes(found, elsewhere)
        for found in rankings
        if any(found.metric in scores for scores in elsewhere.values())
    }
    return {
        "name": competition.directory.resolve().name,
        "version": __version__,
        "manifest": competition.manifest,
        "models": competition.models,
        "pool": competition.manifest.image_count,
        "images": len(images),
        "labelled": len(scorer.images),
        "pairs": len(competition.pairs),
        "rankings": rankings,
        "flips": [flip_report(pairwise) for pairwise in pairwise_scores],
        "plan": plan_labels(pairwise_scores[0], scorer.unlabelled, PlanSettings(most=0)),
        "curves": curves,
        "repeated": sorted(repeated, key=lambda part: -part.repeated),
        "annotations": asdict(found) if (found := facts.annotation_statistics(scorer.references)) else None,
        "threshold": facts.right_threshold(scorer, pairwise_scores[0].metric),
        "changes": changes,
        "notes": [note for note in [verbosity_note(competition.manifest)] if note],
        "images_shown": competition.image_root is not None,
    }
