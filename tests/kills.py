"""Kill a command at random moments, run it again, and compare what it leaves with a run that was never killed.

    python tests/kills.py compete 100 --seed 1

Kinds: compete (new, select, add), features (an extraction into a store), training (weights, optimiser, log), judge (a
run of a judge behind an endpoint) and trial (two captioners and a judge behind endpoints, votes, ranking). Each kill
happens in a forked process, half of them at a random write (before or after a rename, an fsync or a removal), half
after a random share of the processor time that the work takes. Prints a
JSON document with the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from captrial.captioners.checkpoint import Checkpoint
from captrial.compete import Competition, SelectionSettings
from captrial.compete.competition import verify_competition
from captrial.files import atomic_write, content_hash
from captrial.folders import CHECKSUMS
from captrial.judges import (
    EndpointJudge,
    JudgeSettings,
    SimulatedJudge,
    SimulatedServer,
    TrialFile,
    TrialJudge,
    judge_competition,
    read_verdicts,
    run_trial,
    serve_judge,
)
from captrial.judges.machine_verdicts import verify_verdicts
from captrial.judges.simulated_judge import ServerFault
from captrial.records import ImageRef, Sample
from captrial.training.feature_extraction import extract
from captrial.training.run import TrainingData, train, verify_run
from captrial.training.state import STATE
from captrial.vision.features.feature_store import FeatureStore, verify_store
from captrial.vision.features.visual_features import Features
from judges.judged_competition import make_competition

EVENTS = ((os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "rename"))
Content = dict[str, object]


@dataclass(frozen=True)
class Work:
    """Something to do in a folder, what it leaves, and what `captrial verify` says about it."""

    do: Callable[[Path], None]
    content: Callable[[Path], Content]
    problems: Callable[[Path], tuple[str, ...]]


def compete(inputs: Path) -> Work:
    rng = random.Random(0)
    words = ["a", "dog", "cat", "runs", "sleeps", "on", "the", "red", "green", "sofa", "grass", "boat"]
    for name in "abc":
        rows = [{"image_id": n, "caption": " ".join(rng.choices(words, k=6))} for n in range(30)]
        (inputs / f"{name}.json").write_text(json.dumps(rows))

    def do(folder: Path) -> None:
        if not (folder / "competition.json").exists():
            Competition.create(folder, {name: inputs / f"{name}.json" for name in "ab"})
        competition = Competition.open(folder)
        competition.select(SelectionSettings(4, 4))
        competition.add_model("c", inputs / "c.json")
        competition.select()

    def content(folder: Path) -> Content:
        found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files_of(folder)}
        found.pop(CHECKSUMS)  # may allow an older content beside the present one; `problems` checks the files
        manifest = json.loads(found.pop("competition.json"))
        return {**found, "manifest": {**manifest, "id": None}}  # the id is another one for each competition

    return Work(do, content, lambda folder: verify_competition(folder).problems)


def files_of(folder: Path) -> list[Path]:
    """All files; a killed process may leave a hidden temporary one."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]


class MeanColours:
    """A small backbone: the mean colour of four quarters of an image."""

    def describe(self) -> dict[str, object]:
        return {"backbone": "mean colours", "width": 3}

    def extract(self, images: list[Image.Image]) -> Features:
        small = [np.asarray(image.resize((2, 2)), np.float32).reshape(4, 3) for image in images]
        elements = torch.from_numpy(np.stack(small)) / 255
        return Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool), torch.zeros(len(images), 4, 4))


def features(inputs: Path) -> Work:
    samples = []
    for number in range(24):
        path = inputs / f"{number}.png"
        Image.linear_gradient("L").resize((8 + number, 9)).convert("RGB").save(path)
        samples.append(Sample(ImageRef(str(number), path), ("a dog",)))

    def do(folder: Path) -> None:
        extract(samples, MeanColours(), folder, batch=2)  # type: ignore[arg-type]

    def content(folder: Path) -> Content:
        store = FeatureStore(folder)
        return {name: store.get([name]).elements.numpy().tobytes() for name in sorted(store)}

    return Work(do, content, lambda folder: verify_store(folder).problems)


class Noise:
    """Random features of images by id."""

    def get(self, image_ids: list[str]) -> Features:
        rows = [np.random.default_rng(int(name)).normal(size=(3, 4)) for name in image_ids]
        elements = torch.tensor(np.stack(rows), dtype=torch.float32)
        return Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool))


def training(_: Path) -> Work:
    words = ["a", "dog", "cat", "runs", "sleeps", "on", "the", "red", "sofa"]
    samples = [Sample(ImageRef(str(n)), (" ".join([words[n % 9], words[n % 5], words[n % 7]]),)) for n in range(9)]
    sizes = {"width": "8", "heads": "2", "hidden": "8", "min_count": "1", "epochs": "2", "batch": "3"}
    options = {**sizes, "save_every": "0", "scst_epochs": "1", "scst_rate": "1e-4", "average": "0.9"}
    data = TrainingData(samples, samples[:4], Noise(), {"backbone": "noise", "width": 4})  # type: ignore[arg-type]

    def do(folder: Path) -> None:
        train("transformer-small", data, folder, options)

    def content(folder: Path) -> Content:
        best = Checkpoint.from_pretrained(folder / "best").captioner.state_dict()
        log = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
        return {
            **{name: tensor.numpy().tobytes() for name, tensor in best.items()},
            "tensors": _tensors(folder / STATE),
            "log": [[*cells[:3], *cells[4:-1]] for cells in log],  # without times
        }

    return Work(do, content, lambda folder: verify_run(folder).problems)


def _tensors(path: Path) -> dict[str, bytes]:
    from safetensors.torch import load_file

    return {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()}


def served() -> str:
    """The address of an endpoint in a process of its own: a judge, and captioners as the models `plain` and `wrong`."""

    def captioner(_: int, body: dict[str, object]) -> ServerFault | None:
        words = {"plain": "a good view of thing", "wrong": "a bad cat on thing"}.get(str(body["model"]))
        return words and ServerFault(text=f"{words} {content_hash(json.dumps(body['messages']))[:6]}")  # type: ignore[return-value]

    reader, writer = os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        simulated = SimulatedJudge(accuracy=0.7, tie_rate=0.2)
        with serve_judge(SimulatedServer(simulated, lambda first, _: "good" in first, captioner)) as server:
            os.write(writer, server.base.encode())
            while os.getppid() == parent:
                time.sleep(0.1)
        os._exit(0)
    return os.read(reader, 100).decode()


def judge(inputs: Path) -> Work:
    """Asks a simulated judge; its cache is in the folder, so that every attack begins anew."""
    made = make_competition(inputs, images=12).directory
    base = served()

    def do(folder: Path) -> None:
        os.environ["CAPTRIAL_CACHE"] = str(folder / ".cache")
        if not folder.exists():
            shutil.copytree(made, folder.with_suffix(".copy"), dirs_exist_ok=True)
            folder.with_suffix(".copy").rename(folder)
        settings = JudgeSettings("tiny", concurrency=2)
        report = judge_competition(Competition.open(folder), EndpointJudge(base, "tiny", pause=0.01), settings)
        assert report.missing == 0

    def content(folder: Path) -> Content:
        return {repr(one.place): (one.preferred, one.reason, one.key) for one in read_verdicts(folder)}

    def problems(folder: Path) -> tuple[str, ...]:
        return verify_competition(folder).problems + verify_verdicts(folder).problems

    return Work(do, content, problems)


def trial(inputs: Path) -> Work:
    """A whole trial; people vote when the judge is done."""
    images = inputs / "images"
    images.mkdir()
    for number in range(8):
        Image.new("RGB", (32, 24), (number * 30, 80, 200)).save(images / f"{number}.png")
    base = served()
    models = {name: f"{base}#{name}" for name in ("plain", "wrong")}

    def do(folder: Path) -> None:
        os.environ["CAPTRIAL_CACHE"] = str(folder / ".cache")
        judges = (TrialJudge(f"{base}#tiny", "tiny", concurrency=2),)
        planned = TrialFile(folder / "trial", images, models, select=6, judges=judges, votes=6)
        first = run_trial(planned)
        assert not first.reports["tiny"].missing
        vote = {"model_a": "plain", "model_b": "wrong", "preferred": "plain"}
        rows = [{"image": f"{number}.png", **vote} for number in range(8)]
        atomic_write(folder / "trial" / "judgements.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows).encode())
        assert run_trial(planned).complete

    def content(folder: Path) -> Content:
        kept = [path for name in ("selection", "captions") for path in files_of(folder / "trial" / name)]
        verdicts = {repr(one.place): (one.preferred, one.key) for one in read_verdicts(folder / "trial")}
        result = (folder / "trial" / "trial.json").read_bytes()
        return {**{path.name: path.read_bytes() for path in kept}, **verdicts, "result": result}

    def problems(folder: Path) -> tuple[str, ...]:
        return verify_competition(folder / "trial").problems + verify_verdicts(folder / "trial").problems

    return Work(do, content, problems)


KINDS: dict[str, Callable[[Path], Work]] = {
    "compete": compete,
    "features": features,
    "training": training,
    "judge": judge,
    "trial": trial,
}


def forked(work: Work, folder: Path, prepare: Callable[[], None] = lambda: None) -> int:
    """Do the work in a child process; its wait status."""
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
            prepare()
            work.do(folder)
            code = 0
        os._exit(code)
    return os.waitpid(child, 0)[1]


def count_events(work: Work, folder: Path) -> tuple[int, float]:
    """Writes of one run, and its seconds of processor time."""
    before = os.times()
    seen = folder.with_suffix(".events")
    forked(work, folder, lambda: _at_events(lambda: seen.open("ab").write(b".")))
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seen.stat().st_size, used


def _at_events(call: Callable[[], object], late: bool = False) -> None:
    """Call a function at every write of this process, before or after it."""
    for holder, name in EVENTS:
        real = getattr(holder, name)

        def event(*arguments: object, _real: Callable[..., object] = real, **options: object) -> object:
            if not late:
                call()
            found = _real(*arguments, **options)
            if late:
                call()
            return found

        setattr(holder, name, event)


def die_at_event(number: int, late: bool) -> Callable[[], None]:
    """Prepares a process to kill itself at a write."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: _at_events(count, late)


def die_after(seconds: float) -> Callable[[], None]:
    """Prepares a process to be ended by the system after some processor time."""

    def prepare() -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)

    return prepare


def attack(kind: str, kills: int, seed: int) -> dict[str, object]:
    """Kill until `kills` processes died; returns counts and what differed."""
    rng, problems, killed, by_time = random.Random(seed), list[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="captrial-kills-") as name:
        root = Path(name)
        (root / "inputs").mkdir()
        work = KINDS[kind](root / "inputs")
        assert forked(work, root / "whole") == 0
        expected = work.content(root / "whole")
        events, seconds = count_events(work, root / "counted")
        folder = root / "killed"
        while killed < kills:
            timed = rng.random() < 0.5
            how = die_after(rng.uniform(0.001, 1.1 * seconds)) if timed else None
            how = how or die_at_event(rng.randrange(events + 1), rng.random() < 0.5)
            if not os.WIFSIGNALED(forked(work, folder, how)):
                shutil.rmtree(folder, ignore_errors=True)  # it had finished
                continue
            killed, by_time = killed + 1, by_time + timed
            if rng.random() < 0.3:
                continue  # kill the continuation, too
            if forked(work, folder) != 0:
                problems.append(f"kill {killed}: the next run failed")
            elif work.content(folder) != expected:
                problems.append(f"kill {killed}: another result")
            problems += [f"kill {killed}: {problem}" for problem in work.problems(folder)]
            shutil.rmtree(folder)
    return {"kind": kind, "kills": killed, "by time": by_time, "at writes": killed - by_time, "writes": events,
            "seed": seed, "problems": problems}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(json.dumps(attack(chosen.kind, chosen.kills, chosen.seed)))
