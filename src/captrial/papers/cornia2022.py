"""The experiments of Cornia 2022 on any data set with labelled regions.

Caption quality (Table 1), prediction time (Fig. 2), GroundingScore (Tables 2 to 4) and examples (Fig. 3 to 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.attribution.attribution import Attribution, on_image
from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, RecordedCaptions
from captrial.attribution.explanation import Explanation
from captrial.attribution.methods.registry import AttributionSettings, title_of
from captrial.attribution.page import ExplanationView, save_figure, words_figure
from captrial.attribution.subject import seen_window
from captrial.data.images import open_image
from captrial.grounding.ground import ground_explanation
from captrial.grounding.regions import element_regions
from captrial.grounding.score import DELTAS, Grounder, Verdict, name_delta
from captrial.grounding.study import (
    GroundedImage,
    GroundingResult,
    ground_dataset,
    grounding_table,
    skill_table,
    verdict_table,
)
from captrial.grounding.tables import Cell, Table
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize
from captrial.papers.cornia2022_claims import caption_claims, grounding_claims, robot_claims, speed_claims
from captrial.papers.experiments import ExperimentOutput
from captrial.papers.prediction_time import time_batches, timing_chart
from captrial.papers.reproduction import ExperimentFunction
from captrial.papers.study_captioners import StudyCaptioner, StudySplit, captions_of, score_columns, work_folder
from captrial.records import Sample

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
    steps: int | None = None  # of integrated gradients; None: as many as a numerical error of 1% needs
    objects: bool = True  # regions are ground truth: Coverage counts their classes
    elements: bool = False  # nouns are grounded on the regions that each captioner's features are of


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
        split = self.grounded_split(captioner, name)
        recorded = RecordedCaptions(self.attributor(captioner, method), self.captions(captioner, split))
        keep = self.work / "nouns" / f"{name}-{captioner.name}-{captioner.mark}-{method}.jsonl"
        return ground_dataset(recorded, split.samples, self.grounder(split), captioner.features, keep)

    def grounded_split(self, captioner: StudyCaptioner, name: str) -> StudySplit:
        """The images of a split with the regions that nouns are grounded on: with `elements` the captioner's own."""
        split = self.splits[name]
        if not self.settings.elements:
            return split
        return StudySplit(name, *element_regions(split.samples, captioner.store))  # type: ignore[arg-type]

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
        by_image: dict[tuple[str, str, str], dict[str, NDArray[np.float64]]] = {}
        for name in ("val", "test"):
            split = self.splits.get(name)
            if split is None or not split.references:
                continue
            objects = {sample.id: _classes(sample) for sample in split.samples} if self.settings.objects else None
            for captioner in self.captioners:
                found, each = score_columns(
                    self.captions(captioner, split), split.references, similarity=self.similarity, objects=objects
                )
                by_image[captioner.features, captioner.model, name] = each
                rows.append((captioner.features, captioner.name, name, *(_shown(column, found) for column in QUALITY)))
        if not rows:
            return ExperimentOutput(missing="no image has references")
        table = Table("quality", "Here", ("features", "model", "split", *QUALITY), tuple(rows), _sizes(self.splits))
        images = {name: list(split.references) for name, split in self.splits.items()}
        return ExperimentOutput([table], claims=caption_claims(by_image, images))

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
        made.tables.append(replace(skill_table(results, seed=self.settings.seed), title="Here, against null models"))
        made.tables.append(replace(verdict_table(results), title="Here, verdicts on nouns", notes=()))
        for method in self.settings.methods:
            found = {(s.features, s.model): self.result(s, name, method) for s in self.captioners}
            made.claims += grounding_claims(found, title_of(method), self.settings.seed)
            if name == "robot" and "test" in self.splits:
                test = {(s.features, s.model): self.result(s, "test", method) for s in self.captioners}
                made.claims += robot_claims(found, test, title_of(method))
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
        split = self.grounded_split(captioner, name)
        samples = {sample.id: sample for sample in split.samples}
        rows: list[tuple[Cell, ...]] = []
        for what, image in picked(found):
            scores = ", ".join(f"{100 * (score or 0):.1f}" for score in image.grounding.scores())
            rows.append((what, image.image, image.caption, f"[{scores}]"))
            sample = samples[image.image]
            if sample.image.path is not None:
                path = self.folder / "figures" / f"{key}-{what.replace(' ', '-')}.png"
                view = self.view(captioner, split, sample, image.caption, method)
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
    ungrounded = {Verdict.NOT_IN_IMAGE, Verdict.NOT_LOOKED_AT}
    tests: dict[str, Callable[[set[Verdict]], bool]] = {
        "grounded at once": lambda seen: seen == {Verdict.GROUNDED},
        "grounded early": lambda seen: Verdict.EARLY in seen and not seen & ungrounded,
        "not grounded": lambda seen: bool(seen & ungrounded),
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
