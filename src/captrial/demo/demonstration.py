"""The demonstration from rendering the first image to the page: train captioners, rank, ground and explain them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from captrial.annotate.simulate import SimulationSettings, simulate_experiment
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.trained import caption_by_id
from captrial.compete import Competition, SelectionSettings
from captrial.data import write_captions, write_references
from captrial.demo import explanations
from captrial.demo.demo_page import DemoResults, write_demo_page
from captrial.demo.demo_plan import DemoCaptioner, DemoPlan
from captrial.errors import StateError
from captrial.files import atomic_write
from captrial.records import Sample
from captrial.report import write_competition_report
from captrial.toyworld import ToyWorldSettings, draw_sheet, read_toyworld, write_toyworld
from captrial.training.feature_extraction import features_of
from captrial.training.run import TrainingData, train
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.registry import load_backbone

METRIC = "cider"
LABELLED = "labelled"  # the copy of the competition that simulated people annotated


@dataclass
class Steps:
    """Runs steps that leave a file behind, and skips those whose file exists."""

    report: Callable[[str], None]  # receives progress messages
    reused: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def make(self, what: str, result: Path, work: Callable[[], object]) -> None:
        """Call `work`, unless its result exists."""
        if result.exists():
            self.reused.append(what)
            self.report(f"reusing {what}")
            return
        self.report(f"making {what}")
        started = time.monotonic()
        work()
        self.seconds[what] = time.monotonic() - started


@dataclass
class Demo:
    """The demonstration in a folder; steps that were finished before are not repeated."""

    out: Path
    report: Callable[[str], None]  # receives progress messages
    plan: DemoPlan = field(default_factory=DemoPlan)

    def __post_init__(self) -> None:
        self.steps = Steps(self.report)
        self.runs = {captioner.name: self.out / "runs" / captioner.slug for captioner in self.plan.captioners}
        self.images = self.out / "toyworld" / "images"

    def run(self) -> dict[str, Any]:
        """Run all steps in order; returns the ranking, the labels and the page."""
        self._train()
        self._compete(self.samples["wild"])
        self._analyse(self.samples["test"])
        competition = Competition.open(self.out / LABELLED)
        self.report("writing the report")
        write_competition_report(competition, competition.labels(), [METRIC], self.out / "report" / "competition")
        ranking, labels = competition.rank(METRIC), orjson.loads((self.out / "labels.json").read_bytes())
        results = DemoResults(self.plan, competition, ranking, labels, self.out / "analysis", self.steps.seconds)
        page = write_demo_page(results, self.out / "toyworld.png", self.out / "report" / "index.html")
        return {"ranking": ranking.rows(), "labels": labels, "report": page}

    # Training --------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        """Render the toy world, extract features, train the captioners."""
        plan, make = self.plan, self.steps.make
        folder, store = self.out / "toyworld", self.out / "features"
        make("the toy world", folder / "dataset.json", lambda: self._render(folder))
        self.samples = {split: read_toyworld(folder, split=split) for split in plan.images}
        make("features", store / "index.jsonl", lambda: self._extract(store))
        self.features = self._extract(store)  # continues where it was interrupted
        for captioner in plan.captioners:
            make(
                f"the captioner {captioner.name}",
                self.runs[captioner.name] / "metrics.png",  # drawn when training has finished
                lambda captioner=captioner: self._train_captioner(captioner),  # type: ignore[misc]
            )

    def _render(self, folder: Path) -> None:
        """Render the toy world, and a sheet of some of its images."""
        plan = self.plan
        draw_sheet(self.out / "toyworld.png", ToyWorldSettings(24, plan.seed, shares={"train": 12, "wild": 12}))
        shares = {split: float(count) for split, count in plan.images.items()}
        write_toyworld(folder, ToyWorldSettings(sum(plan.images.values()), plan.seed, plan.size, shares))

    def _extract(self, store: Path) -> FeatureStore:
        samples = [sample for part in self.samples.values() for sample in part]
        return features_of(samples, load_backbone(f"{self.plan.backbone}?size={self.plan.size}"), store)

    def _train_captioner(self, captioner: DemoCaptioner) -> None:
        """Train one captioner by cross-entropy."""
        options = {**self.plan.recipe, **captioner.options, "seed": str(self.plan.seed)}
        notes = {"data": "the toy world"}
        data = TrainingData(self.samples["train"], self.samples["val"], self.features, self.features.vision, notes)
        train(captioner.preset, data, self.runs[captioner.name], options)

    # Competition -----------------------------------------------------------------------------------------------

    def _compete(self, samples: Sequence[Sample]) -> None:
        """Caption the wild images, select images, have them labelled by simulated annotators."""
        make = self.steps.make
        files = {name: self.out / "captions" / f"{run.name}.json" for name, run in self.runs.items()}
        for name in self.runs:
            make(
                f"captions of the wild images by {name}",
                files[name],
                lambda name=name: self._caption(name, samples, files[name]),  # type: ignore[misc]
            )
        directory, labels = self.out / "competition", self.out / "labels.json"
        make("the selection", directory / "competition.json", lambda: self._select(files, directory))
        make("the labels", labels, lambda: self._label(samples, directory, labels))

    def _caption(self, name: str, samples: Sequence[Sample], path: Path) -> None:
        best = Checkpoint.from_pretrained(self.runs[name] / "best")
        ids = [sample.id for sample in samples]
        captions = caption_by_id(best.captioner, best.vocabulary, self.features, ids, beam=self.plan.beam)
        write_captions(path, {self._file_id(sample): text for sample, text in zip(samples, captions, strict=True)})

    def _select(self, files: dict[str, Path], directory: Path) -> None:
        competition = Competition.create(directory, files, images=self.images)
        competition.select(SelectionSettings(self.plan.k, self.plan.k))

    def _label(self, samples: Sequence[Sample], directory: Path, labels: Path) -> None:
        """Simulated annotators write and inspect captions, from the true captions and with errors."""
        truth = {self._file_id(sample): list(sample.captions) for sample in samples}
        write_references(self.out / "truth.json", truth)
        copy = self.out / LABELLED
        if copy.exists() and Competition.open(copy).manifest.id == Competition.open(directory).manifest.id:
            shutil.rmtree(copy)  # of an interrupted demonstration
        settings = SimulationSettings(self.plan.annotators, noise=0.05, seed=self.plan.seed)
        outcome = simulate_experiment(directory, truth, settings, out=copy)
        if not outcome["images"]:
            raise StateError("no image was labelled; remove the demo's folder and run it again")
        atomic_write(labels, orjson.dumps(outcome))

    def _file_id(self, sample: Sample) -> str:
        """The image's file name, which is its id in the competition."""
        assert sample.image.path is not None
        return sample.image.path.relative_to(self.images).as_posix()

    # Grounding and attention -----------------------------------------------------------------------------------

    def _analyse(self, samples: Sequence[Sample]) -> None:
        """Measure grounding and attention correctness, explain some captions and photographs."""
        plan, make, made = self.plan, self.steps.make, self.out / "analysis"
        parts = (self.runs, samples, self.features)
        grounding, attention = made / "grounding", made / "attention"
        toys, photographs = made / "toyworld.json", made / "photographs.json"
        make("grounding", grounding / "tables.json", lambda: explanations.measure_grounding(plan, *parts, grounding))
        make("attention", attention / "tables.json", lambda: explanations.measure_attention(plan, *parts, attention))
        make("explanations", toys, lambda: explanations.explain_toyworld(plan, *parts, toys))
        make("explained photographs", photographs, lambda: explanations.explain_photographs(plan, photographs))
