"""A command that was killed at any moment continues to the same result (see `kills.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KINDS = ("compete", "features", "training", "judge", "trial")


def attack(kind: str, kills: int, seed: int) -> None:
    line = [sys.executable, str(Path(__file__).with_name("kills.py")), kind, str(kills), "--seed", str(seed)]
    done = subprocess.run(line, capture_output=True, check=True, text=True)
    result = json.loads(done.stdout)
    assert (result["kills"], result["problems"]) == (kills, [])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_kills(kind: str) -> None:
    attack(kind, 3 if kind == "trial" else 6, seed=1)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [2, 3])
def test_fifty_kills(kind: str, seed: int) -> None:
    attack(kind, 50, seed)
