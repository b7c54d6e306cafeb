"""A reproduction as one self-contained page, as Markdown, and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from captrial.data.images import data_url
from captrial.files import atomic_write
from captrial.html import Templates
from captrial.papers.exhibits import Exhibit
from captrial.papers.results import Result
from captrial.papers.runner import Reproduction
from captrial.version import __version__

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
_TEMPLATES = Templates("captrial.papers", "captrial.report", trim=True)


def write(made: Reproduction) -> Path:
    """Write `index.html` and `results.md` into the folder; returns the page."""
    page = _TEMPLATES.render(
        "reproduction.html",
        paper=made.paper,
        results=made.results,
        images={f.file: _image(made.folder / f.file) for r in made.results.values() for f in r.figures},
        settings=made.settings,
        seconds=made.seconds,
        command=made.command,
        version=__version__,
    )
    atomic_write(made.folder / "results.md", markdown(made))
    atomic_write(made.folder / "index.html", page)
    return made.folder / "index.html"


def markdown(made: Reproduction, place: Callable[[str], str] = str) -> str:
    """All exhibits as Markdown; `place` says where the page finds a figure's file."""
    lines = [f"## {made.paper.question}", f"Paper {made.paper.number}: {made.paper.cite}.", ""]
    if made.command:
        lines += [
            "```sh",
            made.command,
            "```",
            f"Seed {made.settings.get('seed', 0)}, {made.seconds:.0f} processor seconds.",
            "",
        ]
    lines += [*(f"- {text}" for text in made.paper.differences), ""]
    for exhibit in made.paper.exhibits:
        lines += _section(exhibit, made.results.get(exhibit.key), place)
    return "\n".join(lines).rstrip() + "\n"


def _section(exhibit: Exhibit, result: Result | None, place: Callable[[str], str]) -> Iterator[str]:
    yield f"### {exhibit.label}: {exhibit.title}"
    yield f"{exhibit.how}." + (f" See [{exhibit.see}]({exhibit.see.removeprefix('docs/')})." if exhibit.see else "")
    if exhibit.stand_in:
        yield f"*Stands in:* {exhibit.stand_in}."
    yield ""
    if result is not None:
        if result.missing:
            yield f"Not made: {result.missing}.\n"
        for sheet in result.sheets:
            yield f"**{sheet.title}**\n"
            yield sheet.markdown()
        for drawn in result.figures:
            yield f"![{drawn.title}]({place(drawn.file)})\n"
        yield from result.notes
        yield from (f"- {_mark(claim.holds)} {claim.text}: {claim.seen}." for claim in result.claims)
        if result.notes or result.claims:
            yield ""
    if exhibit.printed is not None:
        yield "**In the paper**\n"
        yield exhibit.printed.markdown()
    yield from (f"In the paper: {text}\n" for text in exhibit.said)


def summary(made: Reproduction) -> list[tuple[str, str, str, str]]:
    """One row an exhibit: label, title, what became of it, and what of the paper's claims holds."""
    rows = []
    for exhibit in made.paper.exhibits:
        result = made.results.get(exhibit.key)
        if result is None:
            rows.append((exhibit.label, exhibit.title, f"described: {exhibit.see}", ""))
            continue
        state = f"not made: {result.missing}" if result.missing else "reused" if result.reused else "made"
        rows.append((exhibit.label, exhibit.title, state, "; ".join(_claim(result))))
    return rows


def _claim(result: Result) -> Iterator[str]:
    yield from (f"{_mark(claim.holds)} {claim.seen}" for claim in result.claims)


def _mark(holds: bool) -> str:
    return "✓" if holds else "✗"


def _image(path: Path) -> str:
    return data_url(path.read_bytes(), TYPES[path.suffix])
