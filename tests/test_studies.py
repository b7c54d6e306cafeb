"""Pages about studies show the results that are stored as data."""

from __future__ import annotations

from pathlib import Path

from studies.flickr8k_table import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "flickr8k.md"


def test_the_page_on_flickr8k_has_the_table_of_its_results() -> None:
    """After a run: `python -m studies.flickr8k_table`, and put what it prints in the place of the page's table."""
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert shown == table().splitlines()
