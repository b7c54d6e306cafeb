"""The demonstration: a whole trial on rendered pictures, offline, in a few minutes.

Four stand-in speakers with known faults describe the toy world's wild pictures. captrial does not know their faults; it
has to find them out: it selects the pictures on which they differ most, simulated people label these over the real
web application, and the speakers are ranked with their uncertainty.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from captrial.annotate.simulate import simulate_experiment
from captrial.compete.competition import Competition
from captrial.compete.state import SelectionSettings
from captrial.data import write_captions, write_references
from captrial.data.toyworld import SYNONYMS, read_toyworld, write_toyworld
from captrial.data.toyworld.sheet import draw_sheet
from captrial.errors import StateError
from captrial.files import atomic_write
from captrial.records import Sample
from captrial.report.competition import write_competition_report

PICTURES, K, SEED = 240, 15, 0
THINGS = sorted({word for words in SYNONYMS.values() for word in words})
Say = Callable[[str], None]


@dataclass(frozen=True)
class Speaker:
    """A stand-in captioner that sees the same true sentence as the others and makes mistakes at a known rate."""

    name: str
    mistakes: float  # share of the things it names that are not there
    forgets: float  # chance to stop half-way

    def describe(self, sample: Sample, seed: int) -> str:
        """One sentence about a picture."""
        truth = random.Random(f"{seed}:{sample.id}").choice(sample.captions)
        chance = random.Random(f"{seed}:{self.name}:{sample.id}")
        words = truth.lower().replace(",", "").rstrip(".").split()
        said = [chance.choice(THINGS) if word in THINGS and chance.random() < self.mistakes else word for word in words]
        if chance.random() < self.forgets:
            said = said[: max(3, len(said) // 2)]
        return " ".join(said)


SPEAKERS = (
    Speaker("careful", 0.02, 0.0),
    Speaker("forgetful", 0.05, 0.6),
    Speaker("hasty", 0.35, 0.2),
    Speaker("dreamer", 0.75, 0.1),
)


@dataclass
class Demo:
    """The steps of the demonstration; each is skipped where its result is already there."""

    out: Path
    say: Say
    reused: list[str] = field(default_factory=list)

    def run(self) -> dict[str, Any]:
        """Everything, in order; returns what the summary says."""
        world = self.out / "toyworld"
        self._step("the toy world", world / "dataset.json", lambda: self._paint(world))
        samples = [_renamed(sample, world / "images") for sample in read_toyworld(world, split="wild")]
        files = {speaker.name: self.out / "captions" / f"{speaker.name}.json" for speaker in SPEAKERS}
        self._step("what the speakers say", files["dreamer"], lambda: self._speak(files, samples))
        competition = self._compete(files, world)
        references = {sample.id: list(sample.captions) for sample in samples}
        write_references(self.out / "truth.json", references)
        labels = self.out / "labels.json"
        self._step("the labels", labels, lambda: self._label(competition, references, labels))
        self.say("ranking the speakers and writing the report")
        judged = Competition.open(competition.directory)
        report = write_competition_report(judged, judged.labels(), ["cider"], self.out / "report")
        return {"ranking": judged.rank("cider").rows(), "labels": orjson.loads(labels.read_bytes()), "report": report}

    def _step(self, what: str, result: Path, make: Callable[[], None]) -> None:
        if result.exists():
            self.reused.append(what)
            self.say(f"reusing {what}")
        else:
            self.say(f"making {what}")
            make()

    def _paint(self, world: Path) -> None:
        write_toyworld(world, PICTURES, SEED, shares={"train": 1.0, "wild": 3.0})
        draw_sheet(self.out / "toyworld.png", seed=SEED, shares={"train": 12, "wild": 12})

    def _speak(self, files: dict[str, Path], samples: list[Sample]) -> None:
        for speaker in SPEAKERS:
            write_captions(files[speaker.name], {sample.id: speaker.describe(sample, SEED) for sample in samples})

    def _compete(self, files: dict[str, Path], world: Path) -> Competition:
        directory = self.out / "competition"
        if (directory / "competition.json").exists():
            self.reused.append("the competition")
            return Competition.open(directory)
        self.say(f"selecting the {K} pictures a pair on which the speakers differ most")
        competition = Competition.create(directory, files, images=world / "images")
        competition.select(SelectionSettings(K, K))
        return competition

    def _label(self, competition: Competition, references: dict[str, list[str]], labels: Path) -> None:
        outcome = simulate_experiment(competition.directory, references, crew=4, noise=0.05, seed=SEED)
        if not outcome["pictures"]:
            raise StateError("no picture was labelled; remove the demo's folder and run it again")
        atomic_write(labels, orjson.dumps(outcome))


def _renamed(sample: Sample, images: Path) -> Sample:
    """The sample with its file's name as id, so that a competition finds the picture."""
    path = sample.picture.path
    assert path is not None
    picture = replace(sample.picture, id=path.relative_to(images).as_posix())
    return replace(sample, picture=picture)
