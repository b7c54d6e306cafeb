"""What the front pages promise exists: links and images; commands have `test_docs.py`."""

from __future__ import annotations

import re
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


def test_images_of_the_readme_are_small() -> None:
    images = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert len(images) >= 2
    assert all((ROOT / image).stat().st_size < 300_000 for image in images)


def test_figures_of_the_readme_are_on_the_pages_they_name() -> None:
    """The table of speeds: each ratio stands in the page that its row links to, beside the command that measures it."""
    rows = re.findall(
        r"^\|.*\| ([\d.]+) \| `([^`]+)` \| \[\w+\]\(([^)]+)\) \|$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert len(rows) >= 5
    for ratio, command, page in rows:
        text = (ROOT / page).read_text()
        assert re.search(rf"(?<![\d.]){re.escape(ratio)}(?![\d.]*\d)", text), f"{page} does not say {ratio}"
        assert command in text, f"{page} does not name {command}"
