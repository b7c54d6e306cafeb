from __future__ import annotations

from pathlib import Path

import pytest

from captrial.records import Sample
from captrial.toyworld import SPLITS, ToyWorld, ToyWorldSettings, write_toyworld
from toyworld.sample_world import COUNT, SIZE


@pytest.fixture(scope="session")
def samples() -> dict[str, list[Sample]]:
    world = ToyWorld(seed=3, size=SIZE)
    return {split: [world.sample(split, index) for index in range(count)] for split, count in COUNT.items()}


@pytest.fixture(scope="session")
def every(samples: dict[str, list[Sample]]) -> list[Sample]:
    return [sample for split in SPLITS for sample in samples[split]]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("toy") / "world"
    write_toyworld(out, ToyWorldSettings(40, seed=4, size=64, shares={"train": 2, "val": 1, "wild": 1, "robot": 1}))
    return out
