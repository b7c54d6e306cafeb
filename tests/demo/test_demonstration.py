"""The demonstration runs from end to end, and reuses everything the second time."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest

from captrial.demo import demonstration
from captrial.demo.demo_plan import CAPTIONERS, IMPLICIT, SUPERVISED, DemoCaptioner, DemoPlan
from captrial.demo.demonstration import Demo

CHOSEN = tuple(
    replace(captioner, options={**captioner.options, "epochs": "2"})
    for captioner in CAPTIONERS
    if captioner.name in (IMPLICIT, SUPERVISED, "transformer")
)


def small() -> DemoPlan:
    """Three captioners, a few images: enough for every step, too little to learn."""
    sizes = {"k": 4, "annotators": 3, "explained": 1, "size": 96, "wild_training": 6}
    plan = DemoPlan(captioners=CHOSEN, photographs=(), shipped=("transformer", "show_attend_tell"), workers=2, **sizes)
    images = {"train": 32, "val": 4, "test": 6, "wild": 16}
    return replace(plan, images=images, recipe={**plan.recipe, "epochs": "2", "min_count": "1"})


@pytest.mark.slow
def test_a_small_demonstration_from_end_to_end_and_once_more(tmp_path: Path) -> None:
    messages: list[str] = []
    first = Demo(tmp_path, messages.append, small())
    result = first.run()
    assert {row["model"] for row in result["ranking"]} == {captioner.name for captioner in CHOSEN}
    assert result["labels"]["images"] > 0
    assert {row["captioner"] for row in result["quality"]} == {captioner.name for captioner in CHOSEN}
    assert "of 2 captioners by CIDEr, on the whole pool" in result["photographs"]
    page = result["report"].read_text()
    for name in (
        IMPLICIT,
        SUPERVISED,
        "transformer",
        "GroundingScore",
        "<th>prior</th>",
        "competition/index.html",
        "Objects that are there",
    ):
        assert name in page
    assert (tmp_path / "report" / "competition" / "index.html").exists()
    assert not first.steps.reused
    again = Demo(tmp_path, messages.append, small())
    assert again.run()["ranking"] == result["ranking"]
    assert not again.steps.seconds  # no step was repeated


def _train_for_long(_out: Path, _plan: DemoPlan, captioner: DemoCaptioner) -> float:
    """In the place of training: the first captioner is done at once, the others are not."""
    time.sleep(0 if captioner.name == IMPLICIT else 300)
    return 0.0


@pytest.mark.slow
def test_an_interrupted_demonstration_stops_its_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration, "train_captioner", _train_for_long)

    def interrupt(message: str) -> None:
        if message.startswith("made"):
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Demo(tmp_path, interrupt, small())._train_captioners()
    for worker in multiprocessing.active_children():
        worker.join(30)
    assert not multiprocessing.active_children()
    assert time.monotonic() - started < 200
