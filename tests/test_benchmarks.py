"""`make bench` finds every benchmark, and each can be imported without running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem[0] != "_")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_an_unknown_one_gets_the_list() -> None:
    done = run("-m", "benchmarks", "nonsense")
    assert done.returncode == 2
    assert "no benchmark 'nonsense'; there are annotate, " in done.stderr


@pytest.mark.slow
def test_each_has_a_main_that_waits_to_be_called() -> None:
    code = f"import importlib\nfor name in {NAMES}: importlib.import_module(f'benchmarks.{{name}}').main"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
