"""The demonstration from rendering the first image to the page: train captioners, rank, ground and explain them."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from captrial.annotate.simulate import SimulationSettings, simulate_experiment
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.trained import caption_by_id
from captrial.compete import Competition, SelectionSettings
from captrial.data import read_captions, write_captions, write_references
from captrial.demo import explanations
from captrial.demo.caption_quality import caption_quality
from captrial.demo.demo_page import DemoResults, write_demo_page
from captrial.demo.demo_plan import DemoCaptioner, DemoPlan
from captrial.demo.photograph_trial import hold_photograph_trial, read_photograph_trial
from captrial.engines.engine import share_cores
from captrial.errors import StateError
from captrial.files import atomic_write
from captrial.installation import usable_cpus
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
            self.reuse(what)
            return
        self.time(what, work)

    def reuse(self, what: str) -> None:
        """Note that a step was done before."""
        self.reused.append(what)
        self.report(f"reusing {what}")

    def time(self, what: str, work: Callable[[], object]) -> None:
        """Call `work` and note how long it took."""
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
        self._compete(self.pool)
        self._analyse(self.samples["test"])
        competition = Competition.open(self.out / LABELLED)
        self.report("writing the report")
        write_competition_report(competition, competition.labels(), [METRIC], self.out / "report" / "competition")
        ranking, labels = competition.rank(METRIC), orjson.loads((self.out / "labels.json").read_bytes())
        quality = orjson.loads((self.out / "quality.json").read_bytes())
        photographs = read_photograph_trial(self.out / "photographs")
        results = DemoResults(
            self.plan,
            competition,
            ranking,
            labels,
            self.out / "analysis",
            quality,
            photographs,
            self.steps.seconds,
        )
        page = write_demo_page(results, self.out / "toyworld.png", self.out / "report" / "index.html")
        return {
            "ranking": ranking.rows(),
            "conclusion": ranking.conclusion(),
            "quality": quality,
            "photographs": photographs["conclusion"],
            "labels": labels,
            "report": page,
        }

    # Training --------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        """Render the toy world, extract features, train the captioners."""
        plan, make = self.plan, self.steps.make
        folder, store = self.out / "toyworld", self.out / "features"
        make("the toy world", folder / "dataset.json", lambda: self._render(folder))
        self.samples = read_world(folder, plan)
        make("features", store / "index.jsonl", lambda: self._extract(store))
        self.features = self._extract(store)  # continues where it was interrupted
        self.pool, more = self.samples["wild"][: plan.images["wild"]], self.samples["wild"][plan.images["wild"] :]
        self.training = [*self.samples["train"], *more]
        self._train_captioners()

    def _render(self, folder: Path) -> None:
        """Render the toy world, and a sheet of some of its images."""
        plan = self.plan
        draw_sheet(self.out / "toyworld.png", ToyWorldSettings(24, plan.seed, shares={"train": 12, "wild": 12}))
        shares = {split: float(count) for split, count in plan.rendered.items()}
        settings = ToyWorldSettings(sum(plan.rendered.values()), plan.seed, plan.size, shares)
        write_toyworld(folder, settings, plan.workers or usable_cpus())

    def _extract(self, store: Path) -> FeatureStore:
        samples = [sample for part in self.samples.values() for sample in part]
        return features_of(samples, load_backbone(f"{self.plan.backbone}?size={self.plan.size}"), store)

    def _train_captioners(self) -> None:
        """Train the captioners that are not trained yet: side by side, each in a process with one thread."""
        todo = []
        for captioner in self.plan.captioners:
            done = self.runs[captioner.name] / "metrics.png"  # drawn when training has finished
            if done.exists():
                self.steps.reuse(f"the captioner {captioner.name}")
            else:
                todo.append(captioner)
        workers = min(self.plan.workers or usable_cpus(), len(todo))
        if workers <= 1:
            for captioner in todo:
                self.steps.time(f"the captioner {captioner.name}", lambda one=captioner: self._train_one(one))  # type: ignore[misc]
            return
        self.report(f"training {len(todo)} captioners in {workers} processes")
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, context, _begin_worker) as pool:
            running = {pool.submit(train_captioner, self.out, self.plan, captioner): captioner for captioner in todo}
            try:
                for future in as_completed(running):
                    name = f"the captioner {running[future].name}"
                    self.steps.seconds[name] = future.result()
                    self.report(f"made {name}")
            except BaseException:  # also Ctrl-C: else the pool would train all that is left; runs continue by epochs
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise

    def _train_one(self, captioner: DemoCaptioner) -> None:
        """Train one captioner by cross-entropy."""
        options = {**self.plan.recipe, **captioner.options, "seed": str(self.plan.seed)}
        notes = {"data": "the toy world"}
        data = TrainingData(self.training, self.samples["val"], self.features, self.features.vision, notes)
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
        quality = self.out / "quality.json"
        make("the check of all captions", quality, lambda: self._check(files, samples, quality))

    def _check(self, files: dict[str, Path], samples: Sequence[Sample], path: Path) -> None:
        """Check every caption of the wild images against what is known of them."""
        found = []
        for name, file in files.items():
            captions = read_captions(file).to_dict()
            own = {sample.id: captions[self._file_id(sample)] for sample in samples}
            found.append(asdict(caption_quality(name, own, samples, self.plan.seed)))
        atomic_write(path, orjson.dumps(found))

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
        trial = self.out / "photographs"
        make(
            "the trial on photographs",
            trial / "ranking.json",
            lambda: hold_photograph_trial(plan.shipped, METRIC, trial),
        )
        make("explained photographs", photographs, lambda: explanations.explain_photographs(plan, photographs))


def read_world(folder: Path, plan: DemoPlan) -> dict[str, list[Sample]]:
    """The rendered images by split."""
    return {split: list(read_toyworld(folder, split=split)) for split in plan.images}


def train_captioner(out: Path, plan: DemoPlan, captioner: DemoCaptioner) -> float:
    """Train one captioner of a demonstration in a worker process; returns the seconds that it took."""
    started = time.monotonic()
    demo = Demo(out, lambda _: None, plan)
    demo.samples = read_world(out / "toyworld", plan)
    demo.training = [*demo.samples["train"], *demo.samples["wild"][plan.images["wild"] :]]
    demo.features = FeatureStore(out / "features")
    demo._train_one(captioner)
    return time.monotonic() - started


def _begin_worker() -> None:
    """One thread, and no progress bar of its own: several processes share a terminal."""
    share_cores(1)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the life of the process
