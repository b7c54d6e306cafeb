"""Put finished folders of `captrial papers` into docs/results.md: tables, figures, commands, times.

python -m studies.results_page FOLDER ... [--out docs] [--instead OLD=NEW ...]

The paper of a folder is read from its `settings.json`. Its part of the page, between `<!-- paper NAME -->` and the
mark of its end, is replaced; several folders of one paper follow each other there. `--instead` replaces parts of paths
in the commands that are shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson
from PIL import Image

from captrial.files import atomic_write
from captrial.papers.experiments import load_papers
from captrial.papers.reproduction import SETTINGS, Reproduction
from captrial.papers.reproduction_page import markdown, summary
from studies.paper_claims import replace_sections

WIDTH = 1200  # pixels of a figure in the docs
COLOURS = 128
QUOTING = {  # experiments that show captions or photographs of others
    "wan": ("figure-3", "figure-11"),
    "liu": ("figure-3", "figure-5", "figure-6"),
}


def read(folder: Path) -> Reproduction:
    """The reproduction in a folder; its paper is the second word of the command that made it."""
    command = orjson.loads((folder / SETTINGS).read_bytes())["command"].split()
    return Reproduction.read(load_papers()[command[2]], folder)


def without_quotes(made: Reproduction) -> Reproduction:
    """Without captions and images that are not ours to copy; the command's own page has them."""
    note = "Captions and photographs of others are not copied here: the page that the command writes shows them."
    results = dict(made.results)
    for key in QUOTING.get(made.paper.name, ()):
        if key in results:
            results[key] = replace(results[key], tables=(), figures=(), notes=(note,))
    return replace(made, results=results)


def keep_figure(source: Path, target: Path) -> None:
    """A figure for the docs: small enough to be kept in a repository."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".svg":
        target.write_bytes(source.read_bytes())
        return
    with Image.open(source) as opened:
        image = opened.convert("RGB")
        image.thumbnail((WIDTH, 10 * WIDTH))
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


def section(made: Reproduction, name: str, out: Path) -> str:
    """A paper's experiments with their figures copied beside the page, in files that begin with `name`."""

    def place(file: str) -> str:
        figure = f"results/{name}-{Path(file).name}"
        keep_figure(made.folder / file, out / "images" / figure)
        return f"images/{figure}"

    return markdown(made, place).rstrip()


def overview(made: Reproduction) -> str:
    """Every experiment of a paper in one table."""
    lines = ["| experiment | what | here | do the paper's claims hold? |", "| --- | --- | --- | --- |"]
    for label, title, state, holds in summary(made):
        lines.append(f"| {label} | {title} | {'made' if state == 'reused' else state} | {holds} |")
    return "\n".join(lines)


def paper_parts(made: Sequence[Reproduction], out: Path) -> dict[str, str]:
    """The part of the page of every paper, by the name of its marks."""
    parts: dict[str, list[str]] = {}
    for one in made:
        number = len(parts.setdefault(f"paper {one.paper.name}", []))
        title, *rest = section(one, f"{one.paper.name}-{number + 1}", out).split("\n\n")
        before = next(place for place, block in enumerate(rest) if block.startswith("### "))
        blocks = [title, *rest[:before], overview(one), *rest[before:]]
        parts[f"paper {one.paper.name}"].append("\n\n".join(blocks))
    return {name: "\n\n".join(found) for name, found in parts.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Replace the parts of the papers whose folders are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--instead", action="append", default=[], metavar="OLD=NEW")
    chosen = parser.parse_args(arguments)
    found = []
    for folder in chosen.folders:
        made = without_quotes(read(folder))
        for pair in chosen.instead:
            old, _, new = pair.partition("=")
            made = replace(made, command=made.command.replace(old, new))
        found.append(made)
    page = chosen.out / "results.md"
    atomic_write(page, replace_sections(page.read_text(), paper_parts(found, chosen.out)))


if __name__ == "__main__":
    main()
