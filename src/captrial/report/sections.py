"""The sections of a competition's page, each with its figures; `SECTIONS` lists them in the order of the page.

To add a section, write a function that takes a `ReportData` and returns `SectionContent`, a template fragment
`templates/sections/<key>.html`, and one line in `SECTIONS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import orjson

from captrial.compete import Competition, Labels, PairScorer, PairwiseScores, RankingResult, rank_models
from captrial.compete.analysis import (
    LabelPlan,
    ModelRepetition,
    Stability,
    annotation_statistics,
    class_distribution,
    find_repetition,
    flip_report,
    measure_stability,
    pair_outcomes,
    right_threshold,
)
from captrial.compete.ranking.result import ExternalScores, PoolRanking, rank_changes, with_values
from captrial.compete.selection.design import TARGETS
from captrial.data.images import image_data_url
from captrial.errors import StateError
from captrial.metrics.registry import column_title, scale_of
from captrial.metrics.semantic.facts import THRESHOLD
from captrial.progress import track
from captrial.report import charts
from captrial.report.charts import Chart
from captrial.report.mistakes import caption_mistakes
from captrial.report.preferences_page import preference_content

THUMBNAIL = 360  # pixels
MOST_THUMBNAILS = 1500  # in one page: some 25 MB
CLASSES = 40  # shown at most
FACTS = "facts"  # the metric whose propositions a section shows


@dataclass(frozen=True)
class ReportData:
    """What the sections of a report are made from; results that several sections use are computed once."""

    competition: Competition
    labels: Labels
    metrics: Sequence[str]
    external: ExternalScores = field(default_factory=dict)

    @cached_property
    def scorer(self) -> PairScorer:
        """Scores captions of the selected images; an error where none is labelled."""
        return self.competition.labelled_scorer(self.labels)

    @cached_property
    def pairwise(self) -> list[PairwiseScores]:
        """Pairwise scores, by metric."""
        scorer = self.scorer
        return [scorer.score(metric, frequencies=scorer.frequencies) for metric in self.metrics]

    @cached_property
    def rankings(self) -> list[RankingResult]:
        """Rankings, by metric."""
        seed = self.competition.manifest.seed
        return [with_values(rank_models(scores, seed=seed), self.scorer) for scores in self.pairwise]

    @cached_property
    def pool_rankings(self) -> dict[str, PoolRanking]:
        """Rankings on the whole pool, by metric; none where no sample of it is labelled."""
        try:
            return {metric: self.competition.rank_pool(metric, self.labels) for metric in self.metrics}
        except StateError:  # the design has no sample of the pool, or no image of it is labelled
            return {}

    @cached_property
    def plan(self) -> LabelPlan | None:
        """Whether the winner on the whole pool is settled, by the first metric."""
        return self.competition.plan(self.metrics[0], self.labels) if self.pool_rankings else None

    @cached_property
    def changes(self) -> dict[str, dict[str, tuple[float, float, float]]]:
        """Changes of rank against external scores, by metric and model."""
        return {
            ranking.metric: rank_changes(ranking, self.external)
            for ranking in self.rankings
            if any(ranking.metric in scores for scores in self.external.values())
        }


@dataclass(frozen=True)
class SectionContent:
    """The values that a section's template fragment uses, and its figures."""

    values: Mapping[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart] = ()


@dataclass(frozen=True)
class ReportSection:
    """One section of the page: its template fragment is `sections/<key>.html`."""

    key: str
    title: str  # in the page's navigation
    build: Callable[[ReportData], SectionContent | None]  # None leaves the section out


# Charts ---------------------------------------------------------------------------------------------------------


def ranking_chart(ranking: RankingResult) -> Chart:
    """The global ranking with its intervals (Wan 2022 Fig. 9)."""
    title = column_title(ranking.metric)
    name, rows = f"ranking_{ranking.metric}", interval_rows(ranking.rows())
    return charts.intervals(name, f"Global ranking with 95% intervals, {title}", rows, f"ranking score, {title}")


def pool_chart(ranking: PoolRanking) -> Chart:
    """Mean scores over the whole pool with their intervals."""
    title = column_title(ranking.metric)
    factor, _ = scale_of(ranking.metric)  # as tables print the metric
    rows = [
        (model, factor * mean, factor * low, factor * high) for model, mean, low, high in interval_rows(ranking.rows())
    ]
    name = f"pool_{ranking.metric}"
    return charts.intervals(name, f"Mean over the pool with 95% intervals, {title}", rows, f"mean {title}")


def interval_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, float, float]]:
    """Name, score and interval of every ranked model; a score without an interval is a point."""
    ranked = [row for row in rows if row["score"] is not None]
    return [
        (row["model"], row["score"], row["score"] if row["low"] is None else row["low"],
         row["score"] if row["high"] is None else row["high"])
        for row in ranked
    ]  # fmt: skip


def matrix_charts(ranking: RankingResult) -> list[Chart]:
    """F (Wan 2022 Fig. 7 and 8), and the probability that the row beats the column; best models first."""
    order = ranking.order
    names = [ranking.models[index] for index in order]
    f = ranking.dominance.f[np.ix_(order, order)].copy()
    np.fill_diagonal(f, np.nan)
    beats = ranking.uncertainty.beats[np.ix_(order, order)]
    metric, title = ranking.metric, column_title(ranking.metric)
    return [
        charts.matrix(f"dominance_{metric}", f"Pairwise dominance, {title}", names, f, 1.0, True),
        charts.matrix(
            f"beats_{metric}", f"Probability that the row beats the column, {title}", names, beats, 0.5, False
        ),
    ]


def stability_chart(curves: Sequence[Stability]) -> Chart:
    """SRCC of the top-k ranking against k (Wan 2022 Fig. 10)."""
    series = {column_title(curve.metric): (curve.k, curve.srcc) for curve in curves}
    return charts.lines("stability", "Top-k ranking against the full one", series, ("k", "SRCC"))


def repetition_chart(repetition: Sequence[ModelRepetition]) -> Chart:
    """Captions with a repeated word, by model (Wan 2022 Fig. 12)."""
    ordered = sorted(repetition, key=lambda part: -part.repeated)
    parts = {"captions": [part.repeated for part in ordered]}
    names = [part.model for part in ordered]
    return charts.bars("repetition", "Captions with a word three or more times in a row", parts, names, "captions")


# Sections -------------------------------------------------------------------------------------------------------


def _ranking(data: ReportData) -> SectionContent:
    drawn = [ranking_chart(ranking) for ranking in data.rankings]
    pools = data.pool_rankings
    return SectionContent({"pools": pools, "targets": TARGETS}, [*drawn, *map(pool_chart, pools.values())])


def _gallery(data: ReportData) -> SectionContent:
    gallery = orjson.dumps(gallery_data(data)).decode()
    return SectionContent({"gallery": gallery, "images_shown": data.competition.image_root is not None})


def _pairs(data: ReportData) -> SectionContent:
    threshold = right_threshold(data.scorer, data.metrics[0])
    outcomes = pair_outcomes(data.pairwise[0], threshold.value)
    parts = {
        "both right": [outcome.both for outcome in outcomes],
        "only the first": [outcome.first for outcome in outcomes],
        "only the second": [outcome.second for outcome in outcomes],
        "neither": [outcome.neither for outcome in outcomes],
    }
    names = [" – ".join(outcome.models) for outcome in outcomes]
    chart = charts.bars("outcomes", "Who was right on the selected images", parts, names, "images")
    matrices = [chart for ranking in data.rankings for chart in matrix_charts(ranking)]
    return SectionContent({"threshold": threshold}, [*matrices, chart])


def _uncertainty(data: ReportData) -> SectionContent:
    scorer = data.scorer
    curves = [
        measure_stability(partial(scorer.score, metric, frequencies=scorer.frequencies)) for metric in data.metrics
    ]
    values = {
        "flips": [flip_report(scores) for scores in data.pairwise],
        "plan": data.plan,
        "curves": curves,
    }
    return SectionContent(values, [stability_chart(curves)] if len(scorer.models) > 2 else [])


def _external(data: ReportData) -> SectionContent | None:
    drawn = [chart for metric in data.changes for chart in [_external_chart(data, metric)] if chart]
    return SectionContent(charts=drawn) if data.changes else None


def _external_chart(data: ReportData, metric: str) -> Chart | None:
    rows = [
        (name, data.external[name][metric], data.scorer.score_on_own_images(metric, model))
        for model, name in enumerate(data.competition.models)
        if metric in data.external.get(name, {})
    ]
    rows.sort(key=lambda row: -row[1])
    title, ends = column_title(metric), ("external", "on D")
    return charts.dumbbells(f"external_{metric}", f"{title}, external and on D", rows, ends, title) if rows else None


def _repetition(data: ReportData) -> SectionContent:
    found = find_repetition(data.competition.pool)
    ordered = sorted(found, key=lambda part: -part.repeated)
    drawn = [repetition_chart(found)] if any(part.repeated for part in found) else []
    return SectionContent({"repetition": ordered}, drawn)


def _mistakes(data: ReportData) -> SectionContent | None:
    if not any(metric.startswith(FACTS) for metric in data.metrics):
        return None
    competition = data.competition
    captions = competition.cut.all_of(competition.selected_captions())
    rows, marked = caption_mistakes(captions, data.labels.references, competition.models)
    return SectionContent({"fact_rows": rows, "marked_captions": marked, "threshold": THRESHOLD})


def _annotations(data: ReportData) -> SectionContent:
    statistics = annotation_statistics(data.scorer.references)
    classes = class_distribution(map(data.competition.class_of, data.competition.selected_images()))
    shown = dict(list(classes.items())[:CLASSES])
    parts = {"images": list(shown.values())}
    drawn = [charts.bars("classes", "Classes of the selected images", parts, list(shown), "images")] if shown else []
    return SectionContent({"annotations": asdict(statistics) if statistics else None}, drawn)


def _preferences(data: ReportData) -> SectionContent | None:
    judgements = data.competition.judgements()
    try:
        result = data.competition.rank_preferences(judgements)
    except StateError:  # no judgements, or too few to connect the models
        return None
    return SectionContent(*preference_content(result, judgements))


SECTIONS: tuple[ReportSection, ...] = (
    ReportSection("ranking", "Ranking", _ranking),
    ReportSection("preferences", "Preferences", _preferences),
    ReportSection("gallery", "Images", _gallery),
    ReportSection("pairs", "Pair by pair", _pairs),
    ReportSection("uncertainty", "Uncertainty", _uncertainty),
    ReportSection("external", "External scores", _external),
    ReportSection("mistakes", "Mistakes and omissions", _mistakes),
    ReportSection("repetition", "Repetition", _repetition),
    ReportSection("annotations", "Annotations", _annotations),
)


# Gallery --------------------------------------------------------------------------------------------------------


def gallery_data(data: ReportData) -> dict[str, Any]:
    """What `gallery.js` shows of the selected images: captions side by side, references, scores by metric."""
    competition = data.competition
    captions = competition.selected_captions()
    images = competition.selected_images()
    thumbnails = _thumbnails(competition, images)
    return {
        "models": list(competition.models),
        "metrics": list(data.metrics),
        "titles": {metric: column_title(metric) for metric in data.metrics},
        "images": {
            image: {
                "captions": list(captions[image]),
                "references": data.labels.references.get(image, []),
                "thumbnail": thumbnails.get(image),
            }
            for image in images
        },
        "pairs": [
            {
                "models": list(pair),
                "images": list(active.images),
                "similarity": list(active.similarity),
                "scores": {scores.metric: _image_scores(scores, pair, active.images) for scores in data.pairwise},
            }
            for pair, active in competition.selections().items()
        ],
    }


def _image_scores(
    scores: PairwiseScores, pair: tuple[int, int], images: Sequence[str]
) -> list[tuple[float | None, float | None] | None]:
    """The metric of both captions of each image; None where it has no label."""
    for found in scores.pairs:
        if found.models == pair:
            rows = zip(found.images.tolist(), found.per_image.tolist(), strict=True)
            values = {scores.images[image]: (_rounded(both[0]), _rounded(both[1])) for image, both in rows}
            return [values.get(name) for name in images]
    return [None] * len(images)


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _thumbnails(competition: Competition, images: Sequence[str]) -> dict[str, str]:
    """Small JPEGs as data URLs, of the images that can be opened."""
    found: dict[str, str] = {}
    source = competition.image_source
    for image in track(images if source else [], "thumbnails"):
        opened = source.open(image) if source and len(found) < MOST_THUMBNAILS else None
        if opened is not None:
            found[image] = image_data_url(opened, side=THUMBNAIL, quality=76, optimize=True)
    return found
