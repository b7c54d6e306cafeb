"""A small competition with images, and a simulated judge on loopback that knows which captions are good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from captrial.compete import Competition, SelectionSettings
from captrial.judges import EndpointJudge, SimulatedJudge, SimulatedServer, serve_judge
from captrial.judges.simulated_judge import Faults

IMAGES = 6


def make_competition(folder: Path, images: int = IMAGES) -> Competition:
    """Models `plain` and `wrong`; the captions of the first are better."""
    (folder / "images").mkdir(parents=True)
    for number in range(images):
        Image.new("RGB", (40, 30), (number * 9, 80, 200)).save(folder / "images" / f"{number}.png")
    files = {}
    for name, words in {"plain": "a good view of", "wrong": "a bad cat on"}.items():
        files[name] = folder / f"{name}.json"
        rows = [{"image_id": str(number), "caption": f"{words} thing {number}"} for number in range(images)]
        files[name].write_text(json.dumps(rows))
    references = {str(number): [f"people wrote of thing {number}"] for number in range(images)}
    (folder / "references.json").write_text(json.dumps(references))
    made = Competition.create(folder / "trial", files, images=folder / "images")
    made.select(SelectionSettings(images, 0))
    return made


@contextmanager
def serving(
    judge: SimulatedJudge | None = None, faults: Faults | None = None, **more: Any
) -> Iterator[SimulatedServer]:
    """The judge is always right by default."""
    server = SimulatedServer(judge or SimulatedJudge(accuracy=1), lambda first, _: "good" in first, **more)
    server.faults = faults or server.faults
    with serve_judge(server):
        yield server


def judge_of(server: SimulatedServer, **settings: Any) -> EndpointJudge:
    """An impatient client of the server."""
    return EndpointJudge(server.base, "tiny", pause=0.01, **settings)
