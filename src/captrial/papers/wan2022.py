"""The experiments of Wan 2022 (maximum discrepancy competition) on any folder of caption files."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from captrial.attribution.page import save_figure
from captrial.compete.analysis import statistics as facts
from captrial.compete.analysis.stability import Stability, measure_stability
from captrial.compete.ranking.result import rank_changes
from captrial.errors import MissingExtraError
from captrial.grounding.tables import Cell, Table
from captrial.metrics.registry import column_title
from captrial.papers.experiments import ExperimentOutput
from captrial.papers.reproduction import ExperimentFunction
from captrial.papers.wan2022_claims import (
    agreement_claim,
    change_claim,
    discrepancy_claims,
    dominance_claim,
    repetition_claim,
    stability_claim,
)
from captrial.papers.wan2022_competition import StudyCompetition
from captrial.report import charts
from captrial.report.sections import matrix_charts, ranking_chart, repetition_chart, stability_chart

CLASSES_SHOWN = 60
REPETITIONS_SHOWN = 8
PAPER_METRICS = ("cider", "spice")
EXAMPLE_COLUMNS = 3
CAPTION_COLOURS = {1: "#1d6b43", 0: "#b3261e", None: "#1f2430"}  # right, wrong, not judged


class Wan2022(StudyCompetition):
    """The experiments of Wan 2022: one method for each table or figure."""

    def functions(self) -> dict[str, ExperimentFunction]:
        """The functions that run the experiments, by key."""
        return {
            "figure-3": self.examples,
            "figure-5": self.classes,
            "table-1": architectures,
            "table-2": self.annotations,
            "figure-6": self.external_and_on_d,
            "figure-7": lambda: self.dominance(0),
            "figure-8": lambda: self.dominance(1),
            "figure-9": self.ranking,
            "table-3": lambda: self.rank_changes(0),
            "table-4": lambda: self.rank_changes(1),
            "figure-10": self.stability,
            "figure-11": self.repetition_examples,
            "figure-12": self.repetition,
        }

    def _metric(self, number: int) -> str | None:
        return self.settings.metrics[number] if number < len(self.settings.metrics) else None

    # Experiments -----------------------------------------------------------------------------------------------

    def annotations(self) -> ExperimentOutput:
        """Table 2."""
        found = facts.annotation_statistics(self.scorer.references)
        assert found is not None
        columns = ("images", "refs", "words", "max refs", "min refs", "max words", "min words")
        sets, images = len(self.competition.pairs), len(self.competition.selected_images())
        note = f"{sets} sets of {self.settings.k} are {images} different images, {len(self.scorer.images)} labelled"
        return ExperimentOutput([Table("annotations", "Here", columns, (astuple(found),), (note,), decimals=2)])

    def examples(self) -> ExperimentOutput:
        """Fig. 3: the two best captioners, side by side."""
        metric = self.settings.metrics[0]
        first, second = sorted(self.ranking_by(metric).order[:2])
        pairwise = self.scorer.score(metric)
        pair = next(part for part in pairwise.pairs if part.models == (first, second))
        threshold = facts.right_threshold(self.scorer, metric).value
        names = self.competition.models[first], self.competition.models[second]
        selected = self.competition.selected_captions()
        chosen = []
        for what, right in (
            ("both right", (1, 1)),
            (f"only {names[0]}", (1, 0)),
            (f"only {names[1]}", (0, 1)),
            ("neither", (0, 0)),
        ):
            for number, scores in zip(pair.images, pair.per_image, strict=True):
                if tuple(int(value >= threshold) for value in scores) == right:
                    image = pairwise.images[int(number)]
                    captions = tuple(zip(names, (selected[image][first], selected[image][second]), right, strict=True))
                    chosen.append(CaptionExample(image, what, captions))
                    break
        same = self._same(first, second)
        examples = [
            *([CaptionExample(same[0], "the same", tuple((name, same[1], None) for name in names))] if same else []),
            *chosen,
        ]
        return self._shown(
            "examples", examples, [f"right: {column_title(metric)} of at least {threshold:.3f} on the image"]
        )

    def _same(self, first: int, second: int) -> tuple[str, str] | None:
        """The first image of the pool on which the captions of two models are the same."""
        for index in range(self.competition.pool.blocks):
            block = self.competition.pool.block(index, [first, second])
            one, other = (texts.to_pylist() for texts in block.captions)
            for row, (a, b) in enumerate(zip(one, other, strict=True)):
                if a and a == b:
                    return block.ids[row].as_py(), a
        return None

    def _shown(self, name: str, examples: Sequence[CaptionExample], notes: Sequence[str]) -> ExperimentOutput:
        """Examples as a table and, where the images are there, as a figure."""
        marks = {None: "", 1: "✓ ", 0: "✗ "}
        rows: list[tuple[Cell, ...]] = [
            (
                example.image,
                example.what,
                " / ".join(f"{who}: {marks[right]}{text}" for who, text, right in example.captions),
            )
            for example in examples
        ]
        made = ExperimentOutput([Table(name, "Here", ("image", "what", "captions"), tuple(rows), tuple(notes))])
        source = self.competition.image_source
        opened = [(example, source.open(example.image)) for example in examples] if source else []
        there = [(example, image) for example, image in opened if image is not None]
        if there:
            made.images.append((draw_examples(there, self.folder / "figures" / f"{name}.png"), "Here"))
        else:
            made.notes.append("Without --images the captions alone are shown.")
        return made

    def classes(self) -> ExperimentOutput:
        """Fig. 5."""
        pool, objects = self.competition.pool, self.settings.objects
        ids = [image for index in range(pool.blocks) for image in pool.block(index, ()).ids.to_pylist()]
        if objects is not None:
            counts = Counter(name for image in ids for name in dict.fromkeys(objects.get(image, ())))
            found = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            what = "images of the pool in which it is"
        else:
            found, what = facts.class_distribution(map(self.competition.class_of, ids)), "images"
        if not found:
            return ExperimentOutput(
                missing="the images of this pool have no classes; ids that name a folder, or --objects FILE, would"
            )
        shown = dict(list(found.items())[:CLASSES_SHOWN])
        chart = charts.bars("classes", f"Here: {what}, by class", {"images": list(shown.values())}, list(shown), what)
        columns = ("images in the pool", "classes", "largest class", "smallest class")
        row: tuple[Cell, ...] = (len(ids), len(found), max(found.values()), min(found.values()))
        return ExperimentOutput([Table("classes", "Here", columns, (row,))], [chart])

    def external_and_on_d(self) -> ExperimentOutput:
        """Fig. 6."""
        if self.external_scores is None:
            return self._no_scores()
        made = ExperimentOutput()
        rows: list[tuple[Cell, ...]] = []
        for metric in self.settings.metrics:
            on_d = {
                name: self.scorer.score_on_own_images(metric, number)
                for number, name in enumerate(self.competition.models)
            }
            both = [
                (n, 100 * self.external_scores[n][metric], 100 * on_d[n])
                for n in on_d
                if metric in self.external_scores.get(n, {})
            ]
            if not both:
                continue
            both.sort(key=lambda row: -row[1])
            title = f"Here: {column_title(metric)} on everything and on D"
            made.charts.append(
                charts.dumbbells(metric, title, both, ("everything", "on D"), f"{column_title(metric)} x100")
            )
            rows += [(column_title(metric), *row, row[2] / row[1] if row[1] else None) for row in both]
            external = {name: self.external_scores[name][metric] for name, *_ in both}
            own = {name: on_d[name] for name in external}
            made.claims += discrepancy_claims(self.scorer, metric, external, own, self.settings.seed)
        made.tables.append(
            Table("scores", "Here", ("metric", "model", "everything", "on D", "share left"), tuple(rows), decimals=2)
        )
        return made

    def dominance(self, number: int) -> ExperimentOutput:
        """Fig. 7 and 8."""
        metric = self._metric(number)
        if metric is None:
            return ExperimentOutput(missing="only one metric was asked for; give two with --metrics")
        found = self.ranking_by(metric)
        notes = [*_instead(metric, number), *found.notes]
        return ExperimentOutput(charts=matrix_charts(found), claims=[dominance_claim(found)], notes=notes)

    def ranking(self) -> ExperimentOutput:
        """Fig. 9."""
        found = [self.ranking_by(metric) for metric in self.settings.metrics]
        rows: list[tuple[Cell, ...]] = []
        for part in found:
            for row in part.rows():
                interval = "–" if row["low"] is None else f"{row['low']:.4f}–{row['high']:.4f}"
                places = "–" if row["rank_low"] is None else f"{row['rank_low']}–{row['rank_high']}"
                rows.append((column_title(part.metric), row["rank"], row["model"], row["score"], interval, places))
        columns = ("metric", "rank", "model", "q", "95% interval", "95% of ranks")
        made = ExperimentOutput(
            [Table("ranking", "Here", columns, tuple(rows), decimals=4)], list(map(ranking_chart, found))
        )
        if len(found) > 1:
            scores = [self.scorer.score(part.metric) for part in found[:2]]
            made.claims.append(agreement_claim(scores[0], scores[1], self.settings.seed))
        return made

    def rank_changes(self, number: int) -> ExperimentOutput:
        """Tables 3 and 4."""
        metric = self._metric(number)
        if metric is None:
            return ExperimentOutput(missing="only one metric was asked for; give two with --metrics")
        known = {n: row[metric] for n, row in (self.external_scores or {}).items() if metric in row}
        if not known:
            return self._no_scores()
        changes = rank_changes(self.ranking_by(metric), self.external_scores or {})
        ordered = sorted(changes, key=lambda name: changes[name][0])
        rows = tuple((n, 100 * known[n], changes[n][0], changes[n][1], _signed(changes[n][2])) for n in ordered)
        columns = ("model", f"external {column_title(metric)}", "rank", "global rank", "change")
        claim = change_claim(self.ranking_by(metric), known)
        where = "scores given" if self.settings.scores is not None else "all images of the pool, the same references"
        table = Table("changes", "Here", columns, rows, (f"external scores: {where}",), decimals=2)
        return ExperimentOutput([table], claims=[claim], notes=_instead(metric, number))

    def stability(self) -> ExperimentOutput:
        """Fig. 10."""
        curves = [self._curve(metric) for metric in self.settings.metrics]
        made = ExperimentOutput(charts=[stability_chart(curves)])
        if curves[0].weak:
            made.notes.append(f"With {curves[0].models} captioners a rank correlation carries little information.")
        for curve in curves:
            score = partial(self.scorer.score, curve.metric)
            made.claims.append(stability_claim(curve, score, self.settings.seed))
        return made

    def _curve(self, metric: str) -> Stability:
        return measure_stability(lambda k: self.scorer.score(metric, k))

    def repetition_examples(self) -> ExperimentOutput:
        """Fig. 11."""
        examples = [
            CaptionExample(image, f"{part.model}: {word}", ((part.model, caption, None),))
            for part in self.repeated
            for image, caption, word in part.examples[:2]
        ]
        if not examples:
            return ExperimentOutput(notes=["No caption of this pool has a word three or more times in a row."])
        return self._shown("repetition-examples", examples[:REPETITIONS_SHOWN], [])

    def repetition(self) -> ExperimentOutput:
        """Fig. 12."""
        rows = tuple(
            (part.model, part.repeated, f"{100 * part.share:.2f}%", len(part.words), ", ".join(list(part.words)[:5]))
            for part in self.repeated
        )
        columns = ("model", "captions", "share", "different words", "most frequent")
        made = ExperimentOutput([Table("repetition", "Here", columns, rows)], [repetition_chart(self.repeated)])
        if len(self.repeated) > 1:
            made.claims.append(repetition_claim(self.repeated))
        return made

    @staticmethod
    def _no_scores() -> ExperimentOutput:
        return ExperimentOutput(
            missing="there are no external scores: give --external-scores FILE, or references of all images of the pool"
        )


def architectures() -> ExperimentOutput:
    """Table 1: what our captioners are made of."""
    try:
        from captrial.captioners.registry import ARCHITECTURES
    except ImportError:
        raise MissingExtraError("the list of architectures", "models") from None
    columns = ("model", "visual encoder", "decoder", "attention, encoder", "attention, decoder")
    rows = tuple(
        (entry.title, entry.features, entry.decoder, entry.encoder_attention, entry.decoder_attention)
        for entry in ARCHITECTURES.values()
    )
    return ExperimentOutput([Table("architectures", "Here", columns, rows)])


def _instead(metric: str, number: int) -> list[str]:
    """What to say where the experiment is not by the paper's metric."""
    usual = PAPER_METRICS[number]
    return [] if metric == usual else [f"By {column_title(metric)} in place of {column_title(usual)}."]


def _signed(change: float) -> str:
    return f"{change:+g}" if change else "0"


# Examples ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CaptionExample:
    """An image by id, why it is shown, and (captioner, caption, right: 1, wrong: 0, not judged: None)."""

    image: str
    what: str
    captions: tuple[tuple[str, str, int | None], ...]


def draw_examples(examples: Sequence[tuple[CaptionExample, Image.Image]], path: Path) -> Path:
    """The images in rows of three, each with its captions; the format goes by the suffix."""
    rows = math.ceil(len(examples) / EXAMPLE_COLUMNS)
    figure = Figure(figsize=(3.4 * EXAMPLE_COLUMNS, 3.7 * rows))
    grid = figure.subplots(rows, EXAMPLE_COLUMNS, squeeze=False).ravel()
    figure.subplots_adjust(left=0.02, right=0.98, top=0.95, bottom=0.01, hspace=0.02, wspace=0.05)
    for axes in grid:
        axes.set_axis_off()
    for axes, (example, image) in zip(grid, examples, strict=False):
        _draw(axes, example, image)
    return save_figure(figure, path)


def _draw(axes: Axes, example: CaptionExample, image: Image.Image) -> None:
    axes.imshow(image)
    axes.set_anchor("N")
    axes.set_title(example.what, fontsize=9)
    place = -0.03
    for name, caption, right in example.captions:
        text = textwrap.fill(f"{name}: {caption}", 46)
        axes.text(
            0,
            place,
            text,
            transform=axes.transAxes,
            va="top",
            fontsize=8,
            color=CAPTION_COLOURS[right],
            parse_math=False,
        )
        place -= 0.075 * (text.count("\n") + 1)
