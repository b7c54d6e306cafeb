"""The experiments of Cornia 2022 on any data set with labelled regions.

Caption quality (Table 1), prediction time (Fig. 2), GroundingScore (Tables 2 to 4) and examples (Fig. 3 to 5).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from captrial.attribution.attribution import Attribution, on_image
from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, RecordedCaptions
from captrial.attribution.explanation import Explanation
from captrial.attribution.methods.registry import AttributionSettings, title_of
from captrial.attribution.page import ExplanationView, save_figure, words_figure
from captrial.attribution.subject import seen_window
from captrial.captioners.trained import generate
from captrial.data.images import open_image
from captrial.grounding.ground import ground_explanation
from captrial.grounding.score import DELTAS, Grounder, Verdict, name_delta
from captrial.grounding.study import GroundedImage, GroundingResult, ground_dataset, grounding_table, verdict_table
from captrial.grounding.tables import Cell, Table
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize
from captrial.papers.experiments import ExperimentOutput, PaperClaim
from captrial.papers.reproduction import ExperimentFunction
from captrial.papers.study_captioners import (
    REGIONS,
    StudyCaptioner,
    StudySplit,
    captions_of,
    score_columns,
    work_folder,
)
from captrial.records import Sample
from captrial.report.charts import COLOURS, GRID, Chart, draw

# Prediction time against batch size (Fig. 2): decoding alone, features given


STYLES = ("o-", "s--", "^:", "D-.")  # with colours, twenty lines that are told apart, some without colours too
TITLE = "Here: seconds a batch, mean and standard deviation"


@dataclass(frozen=True)
class Timing:
    """Seconds that batches of one size took."""

    name: str
    batch: int
    seconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.seconds))

    @property
    def spread(self) -> float:
        """Their standard deviation (n - 1)."""
        return float(np.std(self.seconds, ddof=1)) if len(self.seconds) > 1 else 0.0


@torch.inference_mode()
def time_batches(
    study: StudyCaptioner, ids: Sequence[str], batches: Sequence[int], repeats: int, beam: int
) -> list[Timing]:
    """Caption batches of every size, after one to warm up; where images are few, they are taken again."""
    captioner, vocabulary = study.checkpoint.captioner, study.checkpoint.vocabulary
    device = next(captioner.parameters()).device
    found = []
    for batch in batches:
        features = study.store.get(list(islice(cycle(ids), batch))).to(device)
        spent = []
        for _ in range(repeats + 1):
            start = clock()
            generate(captioner, vocabulary, captioner.encode(features), beam)
            spent.append(clock() - start)
        found.append(Timing(study.name, batch, tuple(spent[1:])))
    return found


def clock() -> float:
    """Seconds; on one thread those of the processor, which other work on the machine disturbs less."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def timing_chart(timings: Sequence[Timing]) -> Chart:
    """Seconds against batch size, a line a captioner with a band of one standard deviation."""
    names = list(dict.fromkeys(timing.name for timing in timings))

    def paint(axes: Axes) -> None:
        for number, name in enumerate(names):
            colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
            own = [timing for timing in timings if timing.name == name]
            x, mean, spread = (np.array([getattr(t, part) for t in own]) for part in ("batch", "mean", "spread"))
            axes.plot(x, mean, style, color=colour, markersize=4, linewidth=1.6, label=name)
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        axes.set_xlabel("batch size")
        axes.set_ylabel("seconds a batch")
        axes.set_ylim(bottom=0)
        axes.grid(color=GRID)
        axes.set_axisbelow(True)

    rows = tuple((timing.name, timing.batch, timing.mean, timing.spread) for timing in timings)
    svg = draw((5.6, 3.4), paint, legend=min(3, len(names)))
    return Chart("time", TITLE, svg, ("model", "batch", "mean", "standard deviation"), rows)


# Claims of the paper --------------------------------------------------------------------------------------------


def grounding_claims(start: Mapping[tuple[str, str], float], method: str) -> list[PaperClaim]:
    """Claims about Tables 2 to 4; `start` is GroundingScore(0) by features and model."""
    claims = []
    plain, memory = start.get((REGIONS, "Transformer")), start.get((REGIONS, "SMArT"))
    if plain is not None and memory is not None:
        text = f"With regions SMArT is better grounded than the Transformer at δ = 0 ({method})"
        claims.append(PaperClaim(text, memory > plain, f"{100 * memory:.1f} against {100 * plain:.1f}"))
    regions = [value for (features, _), value in start.items() if features == REGIONS]
    others = [value for (features, _), value in start.items() if features != REGIONS]
    if regions and others:
        text = f"Captioners on patches are less grounded than those on regions at δ = 0 ({method})"
        inside, outside = float(np.mean(regions)), float(np.mean(others))
        claims.append(PaperClaim(text, outside < inside, f"{100 * outside:.1f} against {100 * inside:.1f}"))
    return claims


def caption_claims(ciders: Mapping[tuple[str, str, str], float]) -> list[PaperClaim]:
    """Claims about Table 1, from CIDEr by features, model and split."""
    claims = []
    for (features, model, split), value in ciders.items():
        plain = ciders.get((features, "Transformer", split))
        if model in ("SMArT", "M2") and plain is not None:
            text = f"{model} has better captions than the Transformer, {features}, {split} (CIDEr)"
            claims.append(PaperClaim(text, value > plain, f"{100 * value:.1f} against {100 * plain:.1f}"))
    return claims


def speed_claims(captioners: Sequence[StudyCaptioner], timings: Sequence[Timing], batch: int) -> list[PaperClaim]:
    """Claims about Fig. 2 (SMArT is fastest, M2 slowest), for all features that all three models use."""
    claims = []
    spent = {timing.name: timing.mean for timing in timings if timing.batch == batch}
    for features in dict.fromkeys(captioner.features for captioner in captioners):
        of = {captioner.model: spent[captioner.name] for captioner in captioners if captioner.features == features}
        if {"Transformer", "SMArT", "M2"} <= of.keys():
            seen = ", ".join(f"{name} {1e3 * of[name]:.0f} ms" for name in ("SMArT", "Transformer", "M2"))
            holds = of["SMArT"] < of["Transformer"] < of["M2"]
            claims.append(
                PaperClaim(f"SMArT is the fastest and M2 the slowest ({features}, batch {batch})", holds, seen)
            )
    return claims


def at_zero(found: GroundingResult) -> float:
    """GroundingScore(0), a fraction."""
    scores = found.scores(0)
    there = scores[~np.isnan(scores)]
    return float(there.mean()) if len(there) else 0.0


QUALITY = {
    "B-1": "bleu_1",
    "B-4": "bleu_4",
    "M": "meteor",
    "R": "rouge_l",
    "C": "cider",
    "S": "spice",
    "NW": "nw",
    "Cov": "coverage",
}
TABLES = {"table-2": "val", "table-3": "test", "table-4": "robot"}


@dataclass(frozen=True)
class Cornia2022Settings:
    """Options that the numbers depend on, beside captioners and images."""

    methods: tuple[str, ...] = ("saliency", "guided_backprop", "integrated_gradients")
    beam: int = 5
    threshold: float | None = None
    seed: int = 0
    batches: tuple[int, ...] = (1, 5, 10, 25, 50)
    repeats: int = 5
    steps: int | None = None  # of integrated gradients; None: as many as a completeness error of 1% needs
    objects: bool = True  # regions are ground truth: Coverage counts their classes


@dataclass
class Cornia2022:
    """The experiments of Cornia 2022; `splits` are by name: val, test and robot, where available."""

    captioners: Sequence[StudyCaptioner]
    splits: Mapping[str, StudySplit]
    folder: Path
    settings: Cornia2022Settings = field(default_factory=Cornia2022Settings)
    similarity: Similarity = field(default_factory=Similarity.default)

    def __post_init__(self) -> None:
        self.result = cache(self._result)  # one measurement a captioner, split and method
        self.work = work_folder(self.folder, self.describe(), but=("models", "methods", "seed", "batches", "repeats"))

    def functions(self) -> dict[str, ExperimentFunction]:
        """The functions that run the experiments, by key."""
        return {
            "table-1": self.quality,
            "figure-2": self.times,
            "figure-3": lambda: self.examples("figure-3", "test", "SMArT", 0),
            "figure-4": lambda: self.examples("figure-4", "test", "M2", -1),
            **{key: self._table(name) for key, name in TABLES.items()},
            "figure-5": lambda: self.examples("figure-5", "robot", "SMArT", 0),
        }

    def describe(self) -> dict[str, Any]:
        """Everything that the numbers depend on, for JSON."""
        chosen = self.settings
        return {
            "models": {captioner.name: captioner.mark for captioner in self.captioners},
            "images": {name: [len(split.samples), split.mark] for name, split in self.splits.items()},
            "methods": list(chosen.methods),
            "beam": chosen.beam,
            "threshold": chosen.threshold,
            "similarity": self.similarity.description,
            "steps": chosen.steps,
            "seed": chosen.seed,
            "batches": list(chosen.batches),
            "repeats": chosen.repeats,
        }

    # Shared by experiments ----------------------------------------------------------------------------------------

    def captions(self, captioner: StudyCaptioner, split: StudySplit) -> dict[str, str]:
        """A captioner's captions of a split."""
        keep = self.work / "captions" / f"{split.name}-{captioner.name}-{captioner.mark}.json"
        return captions_of(captioner, split, self.settings.beam, keep)

    def _result(self, captioner: StudyCaptioner, name: str, method: str) -> GroundingResult:
        split = self.splits[name]
        recorded = RecordedCaptions(self.attributor(captioner, method), self.captions(captioner, split))
        keep = self.work / "nouns" / f"{name}-{captioner.name}-{captioner.mark}-{method}.jsonl"
        return ground_dataset(recorded, split.samples, self.grounder(split), captioner.features, keep)

    def attributor(self, captioner: StudyCaptioner, method: str) -> CaptionAttributor:
        """A captioner with one attribution method."""
        chosen = self.settings
        settings = AttributionSettings(steps=chosen.steps)
        return DatasetAttributor(
            captioner.name, captioner.checkpoint, captioner.store, method, chosen.beam, settings=settings
        )

    def grounder(self, split: StudySplit) -> Grounder:
        """How nouns are compared with the labels of a split."""
        return Grounder(split.labels, self.similarity, self.settings.threshold)

    # Experiments -----------------------------------------------------------------------------------------------

    def quality(self) -> ExperimentOutput:
        """Table 1."""
        rows: list[tuple[Cell, ...]] = []
        ciders: dict[tuple[str, str, str], float] = {}
        for name in ("val", "test"):
            split = self.splits.get(name)
            if split is None or not split.references:
                continue
            objects = {sample.id: _classes(sample) for sample in split.samples} if self.settings.objects else None
            for captioner in self.captioners:
                found = score_columns(
                    self.captions(captioner, split), split.references, similarity=self.similarity, objects=objects
                )
                ciders[captioner.features, captioner.model, name] = found["cider"]
                rows.append((captioner.features, captioner.name, name, *(_shown(column, found) for column in QUALITY)))
        if not rows:
            return ExperimentOutput(missing="no image has references")
        table = Table("quality", "Here", ("features", "model", "split", *QUALITY), tuple(rows), _sizes(self.splits))
        return ExperimentOutput([table], claims=caption_claims(ciders))

    def times(self) -> ExperimentOutput:
        """Fig. 2."""
        split = self.splits.get("test") or next(iter(self.splits.values()))
        chosen = self.settings
        timings = [
            timing
            for captioner in self.captioners
            for timing in time_batches(captioner, split.ids, chosen.batches, chosen.repeats, chosen.beam)
        ]
        columns = ("model", *(f"batch {batch}" for batch in chosen.batches))
        rows: list[tuple[Cell, ...]] = []
        for captioner in self.captioners:
            own = [timing for timing in timings if timing.name == captioner.name]
            rows.append((captioner.name, *(f"{1e3 * t.mean:.0f} ± {1e3 * t.spread:.0f}" for t in own)))
        notes = (f"milliseconds a batch; beam {chosen.beam}, {chosen.repeats} repetitions after one to warm up",)
        claims = speed_claims(self.captioners, timings, chosen.batches[-1])
        return ExperimentOutput(
            [Table("times", "Here", columns, tuple(rows), notes)], [timing_chart(timings)], claims=claims
        )

    def _table(self, name: str) -> ExperimentFunction:
        return lambda: self.grounding(name)

    def grounding(self, name: str) -> ExperimentOutput:
        """Tables 2 to 4."""
        if name not in self.splits:
            return self._no_split(name)
        made = ExperimentOutput()
        for checkable in (False, True):
            made.tables.append(self._scores(name, checkable))
        results = [
            self.result(captioner, name, method) for captioner in self.captioners for method in self.settings.methods
        ]
        made.tables.append(replace(verdict_table(results), title="Here, verdicts on nouns", notes=()))
        for method in self.settings.methods:
            start = {(s.features, s.model): at_zero(self.result(s, name, method)) for s in self.captioners}
            made.claims += grounding_claims(start, title_of(method))
        return made

    def _scores(self, name: str, checkable: bool) -> Table:
        """Rows are captioners and methods, columns δ; means x100 with intervals."""
        rows: list[tuple[Cell, ...]] = []
        notes: dict[str, None] = {}
        for captioner in self.captioners:
            results = [self.result(captioner, name, method) for method in self.settings.methods]
            table = grounding_table(results, checkable=checkable, seed=self.settings.seed)
            notes |= dict.fromkeys(table.notes)
            for number, method in enumerate(self.settings.methods):
                cells = table.rows[0][1 + number * len(DELTAS) :][: len(DELTAS)]
                rows.append((captioner.features, captioner.name, title_of(method), *cells))
        columns = ("features", "model", "method", *(f"δ={name_delta(delta)}" for delta in DELTAS))
        title = f"Here, {'checkable nouns' if checkable else 'all nouns'}, {len(self.splits[name].samples)} images"
        return Table("scores", title, columns, tuple(rows), () if checkable else tuple(notes), (), {}, 100, 2)

    def examples(self, key: str, name: str, model: str, otherwise: int) -> ExperimentOutput:
        """Fig. 3 to 5: captions chosen by their verdicts, every word with the region it is attributed to."""
        if name not in self.splits:
            return self._no_split(name)
        captioner = next((s for s in self.captioners if s.model == model), self.captioners[otherwise])
        method = self.settings.methods[-1]
        found = self.result(captioner, name, method)
        made = ExperimentOutput(notes=[f"{captioner.name}, {title_of(method)}."])
        samples = {sample.id: sample for sample in self.splits[name].samples}
        rows: list[tuple[Cell, ...]] = []
        for what, image in picked(found):
            scores = ", ".join(f"{100 * (score or 0):.1f}" for score in image.grounding.scores())
            rows.append((what, image.image, image.caption, f"[{scores}]"))
            sample = samples[image.image]
            if sample.image.path is not None:
                path = self.folder / "figures" / f"{key}-{what.replace(' ', '-')}.png"
                view = self.view(captioner, self.splits[name], sample, image.caption, method)
                made.images.append((save_figure(words_figure(view), path), f"Here: {what}"))
        if not rows:
            made.missing = "no caption has a noun that can be grounded"
        columns = ("what", "image", "caption", "GroundingScore at δ = 0, 1, 3, 5, ∞")
        made.tables.append(Table("examples", "Here", columns, tuple(rows)))
        return made

    def view(
        self, captioner: StudyCaptioner, split: StudySplit, sample: Sample, caption: str, method: str
    ) -> ExplanationView:
        """The attribution of every word of a caption, computed as for the tables."""
        assert sample.image.path is not None
        opened, attributor, words = open_image(sample.image.path), self.attributor(captioner, method), tokenize(caption)
        ((found,),) = attributor.attribute([sample.id], [[words]])
        window = seen_window(attributor.preprocess, *opened.size)
        boxes = on_image(found.boxes, window)
        attribution = Attribution(tuple(words), found.weights, boxes, method, grid=found.grid, window=window)
        regions = [region for region in sample.regions if region.label]
        grounded = ground_explanation(Explanation(attribution, captioner.name, opened), regions, self.grounder(split))
        return grounded.view()

    def _no_split(self, name: str) -> ExperimentOutput:
        extra = ", or robot sequences with --robot" if name == "robot" else ""
        there = ", ".join(self.splits) or "none"
        return ExperimentOutput(
            missing=f"the data set has no {name} split (there are: {there}); give one that has{extra}"
        )


def picked(found: GroundingResult) -> list[tuple[str, GroundedImage]]:
    """A caption that is grounded at once, one grounded early and one with a hallucination; those with most nouns."""
    tests: dict[str, Callable[[set[Verdict]], bool]] = {
        "grounded at once": lambda seen: seen == {Verdict.GROUNDED},
        "grounded early": lambda seen: Verdict.EARLY in seen and Verdict.HALLUCINATED not in seen,
        "hallucinated": lambda seen: Verdict.HALLUCINATED in seen,
    }
    chosen = []
    for what, test in tests.items():
        fitting = [p for p in found.images if test({noun.verdict for noun in p.grounding.nouns})]
        if fitting:
            chosen.append((what, max(fitting, key=lambda image: len(image.grounding.nouns))))
    return chosen


def _classes(sample: Sample) -> list[str]:
    return sorted({region.label for region in sample.regions if region.label})


def _shown(column: str, found: Mapping[str, float]) -> Cell:
    """A metric as the paper prints it: x100, NW as it is."""
    value = found.get(QUALITY[column])
    if value is None or np.isnan(value):
        return None
    return f"{value:.3f}" if column == "NW" else f"{100 * value:.1f}"


def _sizes(splits: Mapping[str, StudySplit]) -> tuple[str, ...]:
    shown = ", ".join(f"{name} {len(split.samples)}" for name, split in splits.items() if name in ("val", "test"))
    return (f"images: {shown}; x100 but NW",)
