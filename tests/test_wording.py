"""Sentences that new users did not understand do not come back."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GONE = (
    "all parts of the picture miss",
    "Against: nobody",
    "looking for things with a name",
    "that it is no luck",
    "pictures are not needed",
    "of so many pictures should go",
    "words a caption",
    "was begun with another",
    "there is nothing to learn from",
    "it cannot be what it might have said",
)


def test_they_are_gone() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    code = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".html", ".js")]
    assert len(code) > 300
    found = [(path.name, phrase) for path in [*pages, *code] for phrase in GONE if phrase in path.read_text()]
    assert found == []
