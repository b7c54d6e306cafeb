"""Nothing is green by being skipped: the rule of `conftest.py`, on tests made for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).with_name("conftest.py")
TESTS = """
import pytest

pytestmark = pytest.mark.needs("java")

def test_of_the_module(): pass

@pytest.mark.needs("data")
def test_of_its_own(): pass

@pytest.mark.full
def test_long(): pass
"""
FREE = """
import pytest

@pytest.mark.slow
def test_a_slow(): print("ran slow")

def test_b_fast(): print("ran fast")
"""


def run(folder: Path, *arguments: str, **environment: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    clean = {name: value for name, value in os.environ.items() if name not in ("CI", "CAPTRIAL_DATA", "PATH")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-s", *arguments, str(folder)]
    environment = {**clean, "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout


def test_what_is_absent_is_skipped_with_a_reason_and_fast_ones_go_first(tmp_path: Path) -> None:
    (tmp_path / "test_needs.py").write_text(TESTS)
    (tmp_path / "test_order.py").write_text(FREE)
    out = run(tmp_path, "--full", CAPTRIAL_DATA=str(tmp_path))
    assert "2 passed, 3 skipped" in out  # the module's need counts for the test that has one of its own, too
    assert "needs java: no `java` on the PATH" in out
    assert out.index("ran fast") < out.index("ran slow")


def test_in_ci_what_is_absent_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_needs.py").write_text(TESTS)
    out = run(tmp_path, CI="true", CAPTRIAL_DATA=str(tmp_path / "none"))
    assert "CI must provide it" in out
    assert "1 deselected, 2 errors" in out
