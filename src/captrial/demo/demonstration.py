"""The demonstration from the first image to the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from captrial.annotate.simulate import simulate_experiment
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings
from captrial.data import write_references
from captrial.demo import captioners, explanations
from captrial.demo.demo_page import write_page
from captrial.demo.plan import Plan
from captrial.errors import StateError
from captrial.files import atomic_write
from captrial.records import Sample
from captrial.report.competition_page import write_competition_report

# Steps that leave a file behind and are skipped when it is there.


@dataclass
class Steps:
    """Says what is going on, how long it took, and what was reused from the last run."""

    say: Callable[[str], None]
    reused: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def make(self, what: str, result: Path, work: Callable[[], object]) -> None:
        """Do some work, unless its result is there."""
        if result.exists():
            self.reused.append(what)
            self.say(f"reusing {what}")
            return
        self.say(f"making {what}")
        started = time.monotonic()
        work()
        self.seconds[what] = time.monotonic() - started


METRIC = "cider"


@dataclass
class Demo:
    """A folder in which the trial takes place; what is there already is not made again."""

    out: Path
    say: Callable[[str], None]
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        self.steps = Steps(self.say)
        self.runs = {trainee.name: self.out / "runs" / trainee.slug for trainee in self.plan.trainees}
        self.images = self.out / "toyworld" / "images"

    def run(self) -> dict[str, Any]:
        """Everything, in order; returns what the summary says."""
        self._learn()
        competition = self._compete(self.samples["wild"])
        self._look(self.samples["test"])
        judged = Competition.open(competition.directory)
        report = self.out / "report"
        self.say("writing the report")
        write_competition_report(judged, judged.labels(), [METRIC], report / "competition")
        ranking, labels = judged.rank(METRIC), orjson.loads((self.out / "labels.json").read_bytes())
        page = write_page(self.out, report, self.plan, judged, ranking, labels, self.steps.seconds)
        return {"ranking": ranking.rows(), "labels": labels, "report": page}

    def _learn(self) -> None:
        """Render the world, look at it, train the captioners."""
        plan, make = self.plan, self.steps.make
        folder, store = self.out / "toyworld", self.out / "features"
        make("the toy world", folder / "dataset.json", lambda: captioners.paint(plan, folder))
        self.samples = captioners.read(plan, folder)
        make("features", store / "index.jsonl", lambda: captioners.look(plan, self.samples, store))
        self.features = captioners.look(plan, self.samples, store)  # goes on where it was interrupted
        for trainee in plan.trainees:
            run = self.runs[trainee.name]
            make(
                f"the captioner {trainee.name}",
                run / "metrics.png",  # drawn when training is over
                lambda trainee=trainee, run=run: captioners.teach(plan, trainee, self.samples, self.features, run),  # type: ignore[misc]
            )

    def _compete(self, samples: Sequence[Sample]) -> Competition:
        """Caption the wild images, select, have people label."""
        plan, make = self.plan, self.steps.make
        files = {name: self.out / "captions" / f"{run.name}.json" for name, run in self.runs.items()}
        for name, run in self.runs.items():
            make(
                f"what {name} says about the wild",
                files[name],
                lambda name=name, run=run: captioners.speak(  # type: ignore[misc]
                    plan, run, samples, self.features, self.images, files[name]
                ),
            )
        directory, labels = self.out / "competition", self.out / "labels.json"
        make("the selection", directory / "competition.json", lambda: self._select(files, directory))
        make("the labels", labels, lambda: self._label(samples, directory, labels))
        return Competition.open(directory)

    def _select(self, files: dict[str, Path], directory: Path) -> None:
        competition = Competition.create(directory, files, images=self.images)
        competition.select(SelectionSettings(self.plan.k, self.plan.k))

    def _label(self, samples: Sequence[Sample], directory: Path, labels: Path) -> None:
        """Simulated people write and inspect sentences, from the truth and with mistakes of their own."""
        truth = {captioners.file_id(sample, self.images): list(sample.captions) for sample in samples}
        write_references(self.out / "truth.json", truth)
        outcome = simulate_experiment(directory, truth, people=self.plan.crew, noise=0.05, seed=self.plan.seed)
        if not outcome["images"]:
            raise StateError("no image was labelled; remove the demo's folder and run it again")
        atomic_write(labels, orjson.dumps(outcome))

    def _look(self, samples: Sequence[Sample]) -> None:
        """Ground what they say, measure where they attend, explain some captions and photographs."""
        plan, make, made = self.plan, self.steps.make, self.out / "looking"
        parts = (self.runs, samples, self.features)
        grounding, attention = made / "grounding", made / "attention"
        toys, photographs = made / "toys.json", made / "photographs.json"
        make("grounding", grounding / "tables.json", lambda: explanations.measure_grounding(plan, *parts, grounding))
        make("attention", attention / "tables.json", lambda: explanations.measure_attention(plan, *parts, attention))
        make("explanations", toys, lambda: explanations.explain_toys(plan, *parts, toys))
        make("explained photographs", photographs, lambda: explanations.explain_photographs(plan, photographs))
