"""Explanation pages before and after the region detector: noun localiser and mean in box, against today's defaults.

    python -m studies.before_after PHOTOGRAPHS... --out FOLDER [--figure docs/images/before_after.png] [--boxes FILE]

Writes two pages a photograph (`NAME-before.html`, `NAME-after.html`), prints one table row a photograph, and draws all
of them side by side. Figures of COCO's or Flickr's photographs would be copies: make them for yourself only. With human
boxes by image id (COCO's) the table also tells what people drew where the region of a noun is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

import captrial
from captrial.attribution.attribution import top_regions
from captrial.data.datasets import read_boxes
from captrial.data.images import open_image
from captrial.grounding.ground import GroundedExplanation
from captrial.records import Region
from captrial.vision.boxes import iou_matrix
from captrial.vision.registry import load_detector


def main() -> None:
    """Explain every photograph twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--boxes", type=Path)
    parser.add_argument("--model", default="ort")
    arguments = parser.parse_args()
    captioner = captrial.load(arguments.model)
    versions = {"before": ("localiser", "mean"), "after": ("region-detector", "area")}
    detectors = {name: load_detector(regions) for name, (regions, _) in versions.items()}
    found: list[tuple[str, dict[str, GroundedExplanation]]] = []
    drawn = {sample.id: sample.regions for sample in read_boxes(arguments.boxes)} if arguments.boxes else {}
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
        cells = [verdicts(grounded, drawn.get(str(int(path.stem)), ()) if drawn else ()) for grounded in made.values()]
        print(f"| {path.stem} | {made['after'].caption} | {' | '.join(cells)} |")
        found.append((path.stem, made))
    if arguments.figure:
        draw(found, arguments.figure)


def verdicts(grounded: GroundedExplanation, drawn: Sequence[Region] = ()) -> str:
    """Every noun with its verdict, the label of its top region, and the class that people `drew` there (IoU)."""
    shown = []
    for noun in grounded.nouns:
        region = top_region(grounded, noun.position)
        name = region.label if region else "no region"
        if region and drawn:
            overlaps = iou_matrix([region.box], [one.box for one in drawn])[0]
            name = f"{name} on {drawn[int(overlaps.argmax())].label} {overlaps.max():.2f}"
        shown.append(f"{noun.name}: {noun.verdict} ({name})")
    return "; ".join(shown)


def top_region(grounded: GroundedExplanation, word: int) -> Region | None:
    """The region that a word was attributed to."""
    view = grounded.view()
    return view.regions[int(top_regions(view.region_scores())[word])] if view.regions else None


def draw(found: list[tuple[str, dict[str, GroundedExplanation]]], path: Path) -> None:
    """Two photographs a row, each before and after, with the top regions of its nouns."""
    rows = -(-len(found) // 2)
    figure, axes = plt.subplots(rows, 4, figsize=(16, 5 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.set_axis_off()
    for number, (name, made) in enumerate(found):
        for column, (which, grounded) in enumerate(made.items()):
            paint(axes[number // 2, 2 * (number % 2) + column], grounded, f"{name}, {which}")
    figure.savefig(path, dpi=72)


def paint(axis: Axes, grounded: GroundedExplanation, title: str) -> None:
    """One photograph."""
    view = grounded.view()
    axis.imshow(view.image)
    colours = ("#ff5050", "#40c0ff", "#ffd040", "#60e060")
    lines = [grounded.caption]
    taken: list[tuple[float, float]] = []
    for number, noun in enumerate(grounded.nouns):
        lines.append(f"{noun.name}: {noun.verdict}")
        region = top_region(grounded, noun.position)
        if region:
            x1, y1, x2, y2 = region.box
            colour, line = colours[number % len(colours)], view.image.height / 14
            axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=colour, linewidth=2))
            while any(abs(x - x1) < view.image.width / 3 and abs(y - y1) < line for x, y in taken):
                y1 += line
            taken.append((x1, y1))
            box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
            axis.text(x1, y1, f"{noun.name}: {region.label}", fontsize=11, va="top", bbox=box)
    axis.set_title(title, fontsize=13)
    text = "\n".join(lines)
    axis.text(0.5, -0.02, text, transform=axis.transAxes, ha="center", va="top", fontsize=11)


if __name__ == "__main__":
    main()
