"""Table 4 of Cornia 2022 from kept results: rooms, light and height, seeds, claims."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from captrial.files import csv_table
from captrial.grounding.baselines import NULLS
from studies import robot_grounding
from studies.paper_runs import GROUNDING_METHODS
from studies.robot_grounding import CONDITIONS, RUNS, by_condition, by_seed, camera_table, robot_claims, robot_table
from studies.toyworld_captioners import run_name

ROOMS = 12


def write_run(folder: Path, run: robot_grounding.Run, seed: int, robot: float, test: float) -> None:
    """Results of a run as `measure` keeps them, around a mean on frames and on test images."""
    generator, rows = np.random.default_rng((seed, *map(ord, run[0] + run[1]))), []
    columns = ["score_0", "score_∞", "checkable_0", *(f"null_{null}" for null in NULLS)]
    places = [(f"room{room:03d}-{condition}", robot) for room in range(ROOMS) for condition in CONDITIONS]
    for method in GROUNDING_METHODS:
        for number, (place, mean) in enumerate([*places, *[(robot_grounding.TEST, test)] * 60]):
            lower = 0.2 if place.endswith("night-low") else 0.0
            scores = np.clip(generator.normal(mean - lower, 0.05, len(columns)), -1, 1)
            rows.append([method, place, number, *scores])
    content = csv_table(["method", "sequence", "image_id", *columns], rows)
    (folder / f"{run_name(*run, seed)}.csv.gz").write_bytes(gzip.compress(content))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Three seeds; M2 is better grounded than the others, all drop on the robot's frames."""
    for seed in range(3):
        for run in RUNS:
            better = 0.1 if run[0] == "m2" else 0.0
            write_run(tmp_path, run, seed, 0.4 + better, 0.6 + better)
    return tmp_path


def test_claims_are_decided_by_rooms_and_seeds(kept: Path) -> None:
    verdicts = {line.split(" | ")[1]: line.split(" | ")[2] for line in robot_claims(kept)}
    assert len(verdicts) == 18
    for claim, verdict in verdicts.items():
        wanted = {"M2 is ": "holds", "SMArT ": "undecided here", "The th": "does not hold"}[claim[:6]]
        assert verdict == wanted, claim


def test_tables_have_a_row_for_each_captioner_and_method(kept: Path) -> None:
    rows = robot_table(kept).splitlines()[2:]
    assert len(rows) == len(RUNS) * len(GROUNDING_METHODS)
    cells = rows[0].strip("| ").split(" | ")
    assert cells[:4] == ["regions", "Transformer", "Saliency", "3"]
    assert float(cells[4]) == pytest.approx(40 - 20 / 6, abs=0.5)
    night = [
        row.strip("| ").split(" | ")[3 + CONDITIONS.index("night-low")] for row in camera_table(kept).splitlines()[2:]
    ]
    assert float(night[0].split(" ± ")[0]) == pytest.approx(20, abs=1.5)


def test_a_sequence_without_a_score_counts_as_its_room() -> None:
    found = {f"room000-{condition}": np.array([0.2, 0.4]) for condition in CONDITIONS}
    found["room000-day-low"] = np.array([np.nan])
    assert by_condition(found).tolist() == [[pytest.approx(0.3)] * len(CONDITIONS)]


def test_nothing_kept_is_undecided(tmp_path: Path) -> None:
    assert by_seed(RUNS[0], "saliency", results=tmp_path) is None
    assert all("not trained yet" in line for line in robot_claims(tmp_path))
    assert len(robot_table(tmp_path).splitlines()) == len(camera_table(tmp_path).splitlines()) == 2
