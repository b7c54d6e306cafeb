"""Pages about studies show the results that are stored as data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from studies.flickr8k_table import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "flickr8k.md"


def test_the_page_on_flickr8k_has_the_table_of_its_results() -> None:
    """After a run: `python -m studies.flickr8k_table`, and put what it prints in the place of the page's table."""
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert shown == table().splitlines()


@pytest.mark.slow
def test_every_study_can_be_imported() -> None:
    """A study is run by hand, months apart: a renamed module must not break it unnoticed."""
    root = PAGE.parents[1]
    paths = [path for path in (root / "studies").rglob("*.py") if path.name != "__init__.py"]
    names = sorted(".".join(path.relative_to(root).with_suffix("").parts) for path in paths)
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
