"""Explanation pages before and after the region detector: noun localiser and mean in box, against today's defaults.

    python -m studies.before_after PHOTOGRAPHS... --out FOLDER [--figure docs/images/before_after.png]

Writes two pages a photograph (`NAME-before.html`, `NAME-after.html`), prints one table row a photograph, and draws all
of them side by side. Figures of COCO's or Flickr's photographs would be copies: make them for yourself only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

import captrial
from captrial.attribution.attribution import top_regions
from captrial.data.images import open_image
from captrial.grounding.ground import GroundedExplanation
from captrial.vision.registry import load_detector


def main() -> None:
    """Explain every photograph twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--model", default="ort")
    arguments = parser.parse_args()
    captioner = captrial.load(arguments.model)
    versions = {"before": ("localiser", "mean"), "after": ("region-detector", "area")}
    detectors = {name: load_detector(regions) for name, (regions, _) in versions.items()}
    found: list[tuple[str, dict[str, GroundedExplanation]]] = []
    print("| photograph | caption | before | after |\n| --- | --- | --- | --- |")
    for path in arguments.photographs:
        image = open_image(path)
        image.thumbnail((640, 640))
        made = {
            name: captrial.ground(captioner, image, regions=detectors[name], rule=rule)
            for name, (_, rule) in versions.items()
        }
        for name, grounded in made.items():
            grounded.save(arguments.out / f"{path.stem}-{name}.html")
        print(f"| {path.stem} | {made['after'].caption} | " + " | ".join(map(verdicts, made.values())) + " |")
        found.append((path.stem, made))
    if arguments.figure:
        draw(found, arguments.figure)


def verdicts(grounded: GroundedExplanation) -> str:
    """Every noun with the label it was attributed to and its verdict."""
    labels = grounded.grounding.labels
    return "; ".join(
        f"{noun.name} ({labels[noun.position] if labels else 'no region'}): {noun.verdict}" for noun in grounded.nouns
    )


def draw(found: list[tuple[str, dict[str, GroundedExplanation]]], path: Path) -> None:
    """Photographs side by side, each with the top regions of its nouns."""
    figure, axes = plt.subplots(2, len(found), figsize=(3.1 * len(found), 6.6), squeeze=False, layout="constrained")
    for column, (name, made) in enumerate(found):
        for row, (which, grounded) in enumerate(made.items()):
            paint(axes[row, column], grounded, f"{name}, {which}")
    figure.savefig(path, dpi=72)


def paint(axis: Axes, grounded: GroundedExplanation, title: str) -> None:
    """One photograph."""
    view = grounded.view()
    axis.imshow(view.image)
    axis.set_axis_off()
    top = top_regions(view.region_scores()) if view.regions else []
    colours = ("#ff5050", "#40c0ff", "#ffd040", "#60e060")
    lines = [grounded.caption]
    for number, noun in enumerate(grounded.nouns):
        lines.append(f"{noun.name}: {noun.verdict}")
        if len(top):
            region = view.regions[int(top[noun.position])]
            x1, y1, x2, y2 = region.box
            colour = colours[number % len(colours)]
            axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=colour, linewidth=2))
            axis.text(x1, y1, f"{noun.name}: {region.label}", fontsize=8, va="top", backgroundcolor=colour)
    axis.set_title(title, fontsize=10)
    axis.text(0.5, -0.02, "\n".join(lines), transform=axis.transAxes, ha="center", va="top", fontsize=8, wrap=True)


if __name__ == "__main__":
    main()
