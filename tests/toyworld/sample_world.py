"""The size and number of the rendered samples that the tests share, and their scene graphs."""

from __future__ import annotations

from captrial.records import Sample
from captrial.toyworld import FRAMES

SIZE = 128
COUNT = {"train": 120, "val": 20, "test": 20, "wild": 80, "robot": 3 * FRAMES}


def graph(sample: Sample) -> dict[str, list]:
    found = sample.extra["scene_graph"]
    assert isinstance(found, dict)
    return found
