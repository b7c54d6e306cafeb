"""What the front pages promise exists: links, pictures, commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not link.startswith(("http", "mailto")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_verbs_in_the_readme_exist() -> None:
    shown = subprocess.run([sys.executable, "-m", "captrial", "--help"], capture_output=True, text=True, check=True)
    for verb in set(re.findall(r"`captrial ([a-z]+)", (ROOT / "README.md").read_text())):
        assert re.search(rf"\b{verb}\b", shown.stdout), f"the README speaks of `captrial {verb}`"


def test_the_python_of_the_readme_runs() -> None:
    """The first lines; the competition needs a directory and has tests of its own."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block
    names: dict[str, object] = {}
    exec(block.group(1).partition("from captrial.compete")[0], names)
    assert "table" in names
