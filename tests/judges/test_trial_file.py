"""A whole trial from one file: two mock captioners, a biased mock judge, simulated people; resumed, killed, capped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from captrial.compete import Competition
from captrial.compete.competition import verify_competition
from captrial.errors import CaptrialError, InputError, MismatchError
from captrial.files import content_hash
from captrial.judges import SimulatedJudge, SimulatedServer, TrialFile, read_trial, run_trial, serve_judge
from captrial.judges.simulated_judge import ServerFault
from captrial.judges.trial_file import TEMPLATE

IMAGES, SELECT = 30, 20


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))


class World:
    """Servers of two captioners and of a judge that prefers what is shown first, and a trial file that names them."""

    def __init__(self, folder: Path, stack: ExitStack, images: int = IMAGES, **judge: Any) -> None:
        self.folder = folder
        (folder / "photos").mkdir()
        for number in range(images):
            Image.new("RGB", (32, 24), (number % 250, 80, 200 - number // 250)).save(
                folder / "photos" / f"{number}.png"
            )
        self.servers = [self._captioner(words, stack) for words in ("a good view of", "a bad cat on")]
        biased = SimulatedJudge(accuracy=0.9, position_bias=0.3)
        self.judge = SimulatedServer(biased, lambda first, _: "good" in first)
        stack.enter_context(serve_judge(self.judge))
        self.file = folder / "trial.yaml"
        self.write(judge)

    def _captioner(self, words: str, stack: ExitStack) -> SimulatedServer:
        def answer(_: int, body: dict[str, Any]) -> ServerFault:
            return ServerFault(text=f"{words} thing {content_hash(json.dumps(body['messages']))[:6]}")

        server = SimulatedServer(SimulatedJudge(), lambda *_: True, answer)
        return stack.enter_context(serve_judge(server))

    def write(self, judge: dict[str, Any], **changes: Any) -> None:
        content = {
            "out": "trial",
            "images": "photos",
            "models": {"plain": f"{self.servers[0].base}#one", "wrong": f"{self.servers[1].base}#two"},
            "select": SELECT,
            "judges": [{"address": f"{self.judge.base}#judge", **judge}],
            "people": {"votes": 12},
            **changes,
        }
        self.file.write_text(json.dumps(content))  # JSON is YAML

    def requests(self) -> tuple[int, int]:
        return sum(len(server.requests) for server in self.servers), len(self.judge.requests)

    def vote(self, count: int) -> None:
        """People, who prefer `plain` on nine of ten, vote on a random part of the judged images."""
        images = Competition.open(self.folder / "trial").selected_images()
        chosen = random.Random(0).sample(images, count)
        lines = [
            {"image": image, "model_a": "plain", "model_b": "wrong", "preferred": "wrong" if at % 10 == 9 else "plain"}
            for at, image in enumerate(chosen)
        ]
        (self.folder / "trial" / "judgements.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def test_from_endpoints_to_a_corrected_ranking(world: World) -> None:
    trial = read_trial(world.file)
    first = run_trial(trial)
    assert not first.complete
    assert world.requests() == (2 * IMAGES, 2 * SELECT)
    assert first.rankings["judge"].judge_only  # nobody has voted, and it says so
    world.vote(12)
    done = run_trial(trial)
    assert done.complete
    assert done.requests == 0
    assert world.requests() == (2 * IMAGES, 2 * SELECT)  # the second run asked nobody
    result = done.rankings["judge"]
    assert not result.judge_only
    assert result.ranking is not None
    assert result.ranking.rows()[0]["model"] == "plain"
    stored = json.loads((world.folder / "trial" / "trial.json").read_text())
    assert stored["complete"] is True
    assert stored["judges"]["judge"]["votes"] == 12
    assert {one["name"] for one in stored["comparison"]} == {"judge", "longer caption"}


def test_a_step_that_failed_is_continued(world: World) -> None:
    world.servers[1].faults = lambda *_: ServerFault(401, body=b"no")
    with pytest.raises(CaptrialError):
        run_trial(read_trial(world.file))
    assert len(world.servers[0].requests) == IMAGES
    fresh = World._captioner(world, "a bad cat on", ExitStack())
    world.servers[1].faults = fresh.faults
    run_trial(read_trial(world.file))
    assert len(world.servers[0].requests) == IMAGES  # not asked again


def test_killed_while_judging_it_continues(world: World) -> None:
    world.judge.faults = lambda *_: ServerFault(delay=0.1) if len(world.judge.requests) > 6 else None
    command = [sys.executable, "-m", "captrial", "trial", "run", str(world.file)]
    running = subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(world.judge.requests) < 16 and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    asked = len(world.judge.requests)
    assert 16 <= asked < 2 * SELECT
    world.judge.faults = lambda *_: None
    found = run_trial(read_trial(world.file))
    assert found.reports["judge"].missing == 0
    assert len(world.judge.requests) <= 2 * SELECT + 8  # what was in flight is asked again, nothing else
    assert world.requests()[0] == 2 * IMAGES


def test_a_budget_is_kept_over_all_runs(world: World) -> None:
    world.write({"budget": 1.0, "prompt_price": 100, "completion_price": 0})  # 0.1 a request
    for _ in range(3):
        found = run_trial(read_trial(world.file))
        assert not found.complete
        assert "budget" in found.notes[0]
    assert len(world.judge.requests) <= 10


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": {"one": "x.json"}}, "two or more models"),
        ({"colour": 1}, "unknown key colour"),
        ({"select": "many"}, "select should be a whole number"),
        ({"risk": 0.9}, "risk is between"),
        ({"judges": [{"name": "j"}]}, "needs an address"),
        ({"judges": [{"address": "http://h/v1#m", "budget": 5}]}, "a budget needs prompt_price"),
        ({"judges": [{"address": "http://h/v1#m", "mode": "stars"}]}, "judges know pairs and grade"),
        ({"images": None}, "name images: FOLDER"),
    ],
)
def test_what_is_refused_before_anything_is_done(world: World, changes: dict[str, Any], said: str) -> None:
    world.write({}, **changes)
    with pytest.raises(InputError, match=said):
        read_trial(world.file)


NESTED = "&h0 [x, x]"
for _level in range(1, 40):
    NESTED = f"&h{_level} [{NESTED}, *h{_level - 1}]"
MODELS = "models: {a: a.json, b: b.json}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{MODELS}\nselect: {NESTED}", "an alias"),  # 2^40 words
        (f"{MODELS}\nmetrics: [{NESTED}]", "an alias"),
        (f"{MODELS}\nout: 0x{'F' * 6000}", "should be text"),
        (f"{MODELS}\nselect: 0x{'F' * 6000}", "all below"),
        (f"{MODELS}\nrisk: {':'.join(['59'] * 900)}.5", "is not YAML"),
        (f"{MODELS}\nmetrics: [0x{'F' * 6000}]", "metrics are names"),
        (f"{MODELS}\nout: !!python/name:os.system", "is not YAML"),
        ("models: {a: './own?trust_remote_code=true', b: b.json}", "would run code"),
        ("models: {a: 'owner/model?allow_pickle=yes', b: b.json}", "would run code"),
        ("models: {a: 'runs/mine?backbone=vgg16:w.pth?pickle=yes', b: b.json}", "would run code"),
    ],
)
def test_hostile_trial_files(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(content)
    with pytest.raises(InputError, match=said):
        read_trial(tmp_path / "t.yaml")


def test_files_outside_its_folder_are_no_rubric(world: World) -> None:
    """A rubric is sent to the judge."""
    secret = world.folder.parent / f"{world.folder.name}.secret"
    secret.write_text("a private key")
    world.write({"rubric": f"../{secret.name}"})
    with pytest.raises(InputError, match="leads out of the folder"):
        run_trial(read_trial(world.file))
    assert world.requests() == (0, 0)


def test_results_that_somebody_edited_stay(world: World) -> None:
    for _ in range(2):
        run_trial(read_trial(world.file))
    results = world.folder / "trial" / "trial.json"
    assert not verify_competition(results.parent).problems
    results.write_text("mine")
    with pytest.raises(InputError, match=r"trial\.json: this file exists"):
        run_trial(read_trial(world.file))
    assert results.read_text() == "mine"


def test_images_stay_here_unless_allowed(world: World) -> None:
    world.write({"address": "https://judge.example/v1#m"})
    with pytest.raises(InputError, match=r"judge\.example.*send_images"):
        run_trial(read_trial(world.file))
    assert world.requests() == (0, 0)


def test_other_models_under_the_same_folder_are_refused(world: World) -> None:
    run_trial(read_trial(world.file))
    world.write({}, models={"plain": f"{world.servers[0].base}#one", "third": f"{world.servers[1].base}#two"})
    with pytest.raises(MismatchError, match="another `out`"):
        run_trial(read_trial(world.file))


def test_the_template_is_a_trial_file(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TEMPLATE)
    trial = read_trial(tmp_path / "t.yaml")
    assert isinstance(trial, TrialFile)
    assert (trial.select, trial.votes, trial.judges[0].name) == (40, 50, "judge")


def test_what_a_trial_began_with_cannot_be_changed(world: World) -> None:
    captions = [{"image_id": f"{number}.png", "caption": f"a cat on thing {number}"} for number in range(IMAGES)]
    file = world.folder / "file.json"
    file.write_text(json.dumps(captions))
    models = {"plain": f"{world.servers[0].base}#one", "wrong": "file.json"}
    world.write({}, models=models)
    run_trial(read_trial(world.file))
    for changes, said in (
        ({"seed": 1}, "with the seed 0"),
        ({"select": 5}, "20 images selected"),
        ({"models": {**models, "plain": f"{world.servers[1].base}#two"}}, "captions of .*#one"),
    ):
        world.write({}, **{"models": models, **changes})
        with pytest.raises(MismatchError, match=said):
            run_trial(read_trial(world.file))
    world.write({}, models=models)
    file.write_text(json.dumps(captions[::-1]))
    with pytest.raises(MismatchError, match="has other captions of wrong than"):
        run_trial(read_trial(world.file))


def test_a_caption_file_that_is_not_there_is_noticed_before_anything_runs(world: World) -> None:
    world.write({}, models={"plain": f"{world.servers[0].base}#one", "wrong": "wrnog.json"})
    with pytest.raises(InputError, match=r"wrnog\.json: no such caption file"):
        run_trial(read_trial(world.file))
    assert world.requests() == (0, 0)


BOMB = "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in ("ab", "bc", "cd"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BOMB, "an alias"),
        ("seed: 1\nseed: 2\n", "the key seed stands twice"),
        ('out: "\\ud800"', "is not YAML"),
        ("!!python/object/apply:os.system [ls]", "is not YAML"),
        (f"seed: {'9' * 100}\nmodels: {{a: a.json, b: b.json}}\nimages: .", "below 2147483648"),
    ],
)
def test_hostile_trial_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "t.yaml").write_text(content)
    with pytest.raises(InputError, match=said):
        read_trial(tmp_path / "t.yaml")


@pytest.mark.full
def test_two_hundred_images_take_less_than_15_minutes(tmp_path: Path) -> None:
    started = time.monotonic()
    with ExitStack() as stack:
        world = World(tmp_path, stack, images=200)
        world.write({}, select=100, people={"votes": 50})
        assert not run_trial(read_trial(world.file)).complete
        world.vote(50)
        assert run_trial(read_trial(world.file)).complete
        assert world.requests() == (400, 200)
    assert time.monotonic() - started < 15 * 60
