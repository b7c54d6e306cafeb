"""Paper 000 on any data set with labelled regions: caption quality, GroundingScore, prediction time, examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from captrial.data.pictures import open_picture
from captrial.explain.attributing import make_looker
from captrial.explain.attribution import Attribution, on_picture
from captrial.explain.explanation import Explanation
from captrial.explain.figures import save_figure, words_figure
from captrial.explain.grounding import DELTAS, Grounder, Verdict
from captrial.explain.grounding_study import (
    METHOD_NAMES,
    Grounded,
    GroundedPicture,
    ground,
    grounding_table,
    name_delta,
    verdict_table,
)
from captrial.explain.looking import Looker
from captrial.explain.methods import Settings
from captrial.explain.sight import grounded_view
from captrial.explain.subject import seen_window
from captrial.explain.tables import Cell, Table
from captrial.explain.view import View
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize
from captrial.records import Sample
from captrial.reproduce.grounding_claims import at_zero, better_captions, better_grounded, slower
from captrial.reproduce.results import Made
from captrial.reproduce.running import Maker
from captrial.reproduce.subjects import Recalling, Split, Subject, captions_of, score_columns, work_folder
from captrial.reproduce.timing import time_batches, timing_chart

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
class GroundingSettings:
    """What decides the numbers, beside captioners and pictures."""

    methods: tuple[str, ...] = ("saliency", "guided_backprop", "integrated_gradients")
    beam: int = 5
    threshold: float | None = None
    seed: int = 0
    batches: tuple[int, ...] = (1, 5, 10, 25, 50)
    repeats: int = 5
    steps: int | None = None  # of integrated gradients; None: as many as a completeness error of 1% needs
    objects: bool = True  # regions are the truth about the picture: Coverage counts their classes


@dataclass
class Grounding:
    """The exhibits of 000; `splits` are by name: val, test and robot, those that there are."""

    subjects: Sequence[Subject]
    splits: Mapping[str, Split]
    folder: Path
    settings: GroundingSettings = field(default_factory=GroundingSettings)
    similarity: Similarity = field(default_factory=Similarity.default)

    def __post_init__(self) -> None:
        self.result = cache(self._result)  # one measurement a captioner, split and method
        self.work = work_folder(self.folder, self.describe(), but=("models", "methods", "seed", "batches", "repeats"))

    def makers(self) -> dict[str, Maker]:
        """One a measured exhibit."""
        return {
            "table-1": self.quality,
            "figure-2": self.times,
            "figure-3": lambda: self.examples("figure-3", "test", "SMArT", 0),
            "figure-4": lambda: self.examples("figure-4", "test", "M2", -1),
            **{key: self._table(name) for key, name in TABLES.items()},
            "figure-5": lambda: self.examples("figure-5", "robot", "SMArT", 0),
        }

    def describe(self) -> dict[str, Any]:
        """Everything that decides the numbers, for JSON."""
        chosen = self.settings
        return {
            "models": {subject.name: subject.mark for subject in self.subjects},
            "pictures": {name: [len(split.samples), split.mark] for name, split in self.splits.items()},
            "methods": list(chosen.methods),
            "beam": chosen.beam,
            "threshold": chosen.threshold,
            "similarity": self.similarity.description,
            "steps": chosen.steps,
            "seed": chosen.seed,
            "batches": list(chosen.batches),
            "repeats": chosen.repeats,
        }

    # What exhibits share ---------------------------------------------------------------------------------------

    def captions(self, subject: Subject, split: Split) -> dict[str, str]:
        """What a captioner says of the pictures of a split."""
        keep = self.work / "captions" / f"{split.name}-{subject.name}-{subject.mark}.json"
        return captions_of(subject, split, self.settings.beam, keep)

    def _result(self, subject: Subject, name: str, method: str) -> Grounded:
        split = self.splits[name]
        recalling = Recalling(self.looker(subject, method), self.captions(subject, split))
        keep = self.work / "nouns" / f"{name}-{subject.name}-{subject.mark}-{method}.jsonl"
        return ground(recalling, split.samples, self.grounder(split), subject.features, keep)

    def looker(self, subject: Subject, method: str) -> Looker:
        """A captioner that is asked by one method where it looks."""
        chosen = self.settings
        settings = Settings(steps=chosen.steps)
        return make_looker(subject.name, subject.checkpoint, subject.store, method, chosen.beam, settings=settings)

    def grounder(self, split: Split) -> Grounder:
        """How nouns are compared with the labels of a split."""
        return Grounder(split.labels, self.similarity, self.settings.threshold)

    # Exhibits --------------------------------------------------------------------------------------------------

    def quality(self) -> Made:
        """Table 1."""
        rows: list[tuple[Cell, ...]] = []
        ciders: dict[tuple[str, str, str], float] = {}
        for name in ("val", "test"):
            split = self.splits.get(name)
            if split is None or not split.references:
                continue
            objects = {sample.id: _classes(sample) for sample in split.samples} if self.settings.objects else None
            for subject in self.subjects:
                said = self.captions(subject, split)
                found = score_columns(said, split.references, similarity=self.similarity, objects=objects)
                ciders[subject.features, subject.model, name] = found["cider"]
                rows.append((subject.features, subject.name, name, *(_shown(column, found) for column in QUALITY)))
        if not rows:
            return Made(missing="no picture has references")
        table = Table("quality", "Here", ("features", "model", "split", *QUALITY), tuple(rows), _sizes(self.splits))
        return Made([table], claims=better_captions(ciders))

    def times(self) -> Made:
        """Fig. 2."""
        split = self.splits.get("test") or next(iter(self.splits.values()))
        chosen = self.settings
        timings = [
            timing
            for subject in self.subjects
            for timing in time_batches(subject, split.ids, chosen.batches, chosen.repeats, chosen.beam)
        ]
        columns = ("model", *(f"batch {batch}" for batch in chosen.batches))
        rows: list[tuple[Cell, ...]] = []
        for subject in self.subjects:
            own = [timing for timing in timings if timing.name == subject.name]
            rows.append((subject.name, *(f"{1e3 * t.mean:.0f} ± {1e3 * t.spread:.0f}" for t in own)))
        notes = (f"milliseconds a batch; beam {chosen.beam}, {chosen.repeats} repetitions after one to warm up",)
        claims = slower(self.subjects, timings, chosen.batches[-1])
        return Made([Table("times", "Here", columns, tuple(rows), notes)], [timing_chart(timings)], claims=claims)

    def _table(self, name: str) -> Maker:
        return lambda: self.grounding(name)

    def grounding(self, name: str) -> Made:
        """Tables 2 to 4."""
        if name not in self.splits:
            return self._no_split(name)
        made = Made()
        for checkable in (False, True):
            made.tables.append(self._scores(name, checkable))
        results = [self.result(subject, name, method) for subject in self.subjects for method in self.settings.methods]
        made.tables.append(replace(verdict_table(results), title="Here, verdicts on nouns", notes=()))
        for method in self.settings.methods:
            start = {(s.features, s.model): at_zero(self.result(s, name, method)) for s in self.subjects}
            made.claims += better_grounded(start, METHOD_NAMES.get(method, method))
        return made

    def _scores(self, name: str, checkable: bool) -> Table:
        """Rows are captioners and methods, columns δ; means x100 with intervals."""
        rows: list[tuple[Cell, ...]] = []
        notes: dict[str, None] = {}
        for subject in self.subjects:
            results = [self.result(subject, name, method) for method in self.settings.methods]
            table = grounding_table(results, checkable=checkable, seed=self.settings.seed)
            notes |= dict.fromkeys(table.notes)
            for number, method in enumerate(self.settings.methods):
                cells = table.rows[0][1 + number * len(DELTAS) :][: len(DELTAS)]
                rows.append((subject.features, subject.name, METHOD_NAMES.get(method, method), *cells))
        columns = ("features", "model", "method", *(f"δ={name_delta(delta)}" for delta in DELTAS))
        title = f"Here, {'checkable nouns' if checkable else 'all nouns'}, {len(self.splits[name].samples)} pictures"
        return Table("scores", title, columns, tuple(rows), () if checkable else tuple(notes), (), {}, 100, 2)

    def examples(self, key: str, name: str, model: str, otherwise: int) -> Made:
        """Fig. 3 to 5: captions that the grounding picks, every word with the region looked at."""
        if name not in self.splits:
            return self._no_split(name)
        subject = next((s for s in self.subjects if s.model == model), self.subjects[otherwise])
        method = self.settings.methods[-1]
        found = self.result(subject, name, method)
        made = Made(notes=[f"{subject.name}, {METHOD_NAMES.get(method, method)}."])
        samples = {sample.id: sample for sample in self.splits[name].samples}
        rows: list[tuple[Cell, ...]] = []
        for what, picture in picked(found):
            scores = ", ".join(f"{100 * (score or 0):.1f}" for score in picture.grounding.scores())
            rows.append((what, picture.picture, picture.caption, f"[{scores}]"))
            sample = samples[picture.picture]
            if sample.picture.path is not None:
                path = self.folder / "figures" / f"{key}-{what.replace(' ', '-')}.png"
                view = self.view(subject, self.splits[name], sample, picture.caption, method)
                made.pictures.append((save_figure(words_figure(view), path), f"Here: {what}"))
        if not rows:
            made.missing = "no caption has a noun that can be grounded"
        columns = ("what", "picture", "caption", "GroundingScore at δ = 0, 1, 3, 5, ∞")
        made.tables.append(Table("examples", "Here", columns, tuple(rows)))
        return made

    def view(self, subject: Subject, split: Split, sample: Sample, caption: str, method: str) -> View:
        """Where a captioner looked with every word of a caption it said, as it is measured for the tables."""
        assert sample.picture.path is not None
        opened, looker, words = open_picture(sample.picture.path), self.looker(subject, method), tokenize(caption)
        ((look,),) = looker.look([sample.id], [[words]])
        window = seen_window(looker.preprocess, *opened.size)
        boxes = on_picture(look.boxes, window)
        attribution = Attribution(tuple(words), look.weights, boxes, method, grid=look.grid, window=window)
        regions = [region for region in sample.regions if region.label]
        return grounded_view(Explanation(attribution, subject.name, opened), regions, self.grounder(split))

    def _no_split(self, name: str) -> Made:
        extra = ", or robot sequences with --robot" if name == "robot" else ""
        there = ", ".join(self.splits) or "none"
        return Made(missing=f"the data set has no {name} split (there are: {there}); give one that has{extra}")


def picked(found: Grounded) -> list[tuple[str, GroundedPicture]]:
    """A caption that is grounded at once, one grounded early and one with a hallucination; those with most nouns."""
    tests: dict[str, Callable[[set[Verdict]], bool]] = {
        "grounded at once": lambda seen: seen == {Verdict.GROUNDED},
        "grounded early": lambda seen: Verdict.EARLY in seen and Verdict.HALLUCINATED not in seen,
        "hallucinated": lambda seen: Verdict.HALLUCINATED in seen,
    }
    chosen = []
    for what, test in tests.items():
        fitting = [p for p in found.pictures if test({noun.verdict for noun in p.grounding.nouns})]
        if fitting:
            chosen.append((what, max(fitting, key=lambda picture: len(picture.grounding.nouns))))
    return chosen


def _classes(sample: Sample) -> list[str]:
    return sorted({region.label for region in sample.regions if region.label})


def _shown(column: str, found: Mapping[str, float]) -> Cell:
    """A metric as the paper prints it: x100, NW as it is."""
    value = found.get(QUALITY[column])
    if value is None or np.isnan(value):
        return None
    return f"{value:.3f}" if column == "NW" else f"{100 * value:.1f}"


def _sizes(splits: Mapping[str, Split]) -> tuple[str, ...]:
    shown = ", ".join(f"{name} {len(split.samples)}" for name, split in splits.items() if name in ("val", "test"))
    return (f"pictures: {shown}; x100 but NW",)
