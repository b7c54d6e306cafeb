"""A reproduction as one self-contained page, as Markdown, and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from captrial.data.images import data_url
from captrial.files import atomic_write
from captrial.html import Templates
from captrial.papers.experiments import Experiment, ExperimentResult
from captrial.papers.reproduction import Reproduction
from captrial.version import __version__

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
_TEMPLATES = Templates("captrial.papers", "captrial.report", trim=True)


def write_reproduction_page(made: Reproduction) -> Path:
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
    """All experiments as Markdown; `place` maps a figure file to its address in the page."""
    lines = [f"## {made.paper.question}", f"{made.paper.cite}.", ""]
    if made.command:
        lines += [
            "```sh",
            made.command,
            "```",
            f"Seed {made.settings.get('seed', 0)}, {made.seconds:.0f} processor seconds.",
            "",
        ]
    lines += [*(f"- {text}" for text in made.paper.differences), ""]
    for experiment in made.paper.experiments:
        lines += _section(experiment, made.results.get(experiment.key), place)
    return "\n".join(lines).rstrip() + "\n"


def _section(experiment: Experiment, result: ExperimentResult | None, place: Callable[[str], str]) -> Iterator[str]:
    yield f"### {experiment.label}: {experiment.title}"
    yield f"{experiment.how}." + (
        f" See [{experiment.see}]({experiment.see.removeprefix('docs/')})." if experiment.see else ""
    )
    if experiment.stand_in:
        yield f"*Stands in:* {experiment.stand_in}."
    yield ""
    if result is not None:
        if result.missing:
            yield f"Not made: {result.missing}.\n"
        for sheet in result.tables:
            yield f"**{sheet.title}**\n"
            yield sheet.markdown()
        for drawn in result.figures:
            yield f"![{drawn.title}]({place(drawn.file)})\n"
        yield from result.notes
        yield from (f"- {claim.mark} {claim.text}: {claim.seen}." for claim in result.claims)
        if result.notes or result.claims:
            yield ""
    if experiment.printed is not None:
        yield "**In the paper**\n"
        yield experiment.printed.markdown()
    yield from (f"In the paper: {text}\n" for text in experiment.said)


def summary(made: Reproduction) -> list[tuple[str, str, str, str]]:
    """One row an experiment: label, title, what became of it, and what of the paper's claims holds."""
    rows = []
    for experiment in made.paper.experiments:
        result = made.results.get(experiment.key)
        if result is None:
            rows.append((experiment.label, experiment.title, f"described: {experiment.see}", ""))
            continue
        state = f"not made: {result.missing}" if result.missing else "reused" if result.reused else "made"
        rows.append((experiment.label, experiment.title, state, "; ".join(_claim(result))))
    return rows


def _claim(result: ExperimentResult) -> Iterator[str]:
    yield from (f"{claim.mark} {claim.seen}" for claim in result.claims)


def _image(path: Path) -> str:
    return data_url(path.read_bytes(), TYPES[path.suffix])
