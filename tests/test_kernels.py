"""Compiled functions and their cache: code that is out of date, damaged or absent is compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import captrial

SOURCE = """
from typing import NamedTuple
import numpy as np
from captrial.kernels import kernel

class {name}(NamedTuple):
    values: np.ndarray

@kernel()
def total(given):
    return given.values.sum() + {extra}

print(total({name}(np.arange(4))), sum(total.stats.cache_hits.values()))
"""


def run(folder: Path, name: str = "Cooked", extra: int = 0) -> tuple[int, int]:
    """The result of a small program with one kernel, and how often its code came from the cache."""
    (folder / "program.py").write_text(SOURCE.format(name=name, extra=extra))
    paths = os.pathsep.join([str(folder), str(Path(captrial.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", "import program"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    result, hits = done.stdout.split()
    return int(result), int(hits)


@pytest.mark.slow
def test_a_renamed_class_or_a_damaged_index_is_compiled_again(tmp_path: Path) -> None:
    """numba alone ends in `AttributeError: Can't get attribute 'Cooked'` after the class was renamed."""
    assert run(tmp_path) == (6, 0)
    assert run(tmp_path) == (6, 1)
    assert run(tmp_path, name="Prepared", extra=1) == (7, 0)
    assert run(tmp_path, name="Prepared", extra=1) == (7, 1)
    (index,) = (tmp_path / "cache").rglob("*.nbi")
    index.write_bytes(index.read_bytes()[:-20])
    assert run(tmp_path, name="Prepared", extra=1) == (7, 0)
    assert run(tmp_path, name="Prepared", extra=1) == (7, 1)
