"""Figures for papers: every word with its map (Cornia 2022 Fig. 3-5, Liu 2017 Fig. 5), as PNG, PDF or SVG by the file's suffix."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from captrial.attribution.view import MARKS, View, coloured
from captrial.files import atomic_path
from captrial.grounding.grounding_score import Verdict

COLUMNS = 5
INCHES = 2.2  # of one image
INKS = {
    Verdict.GROUNDED: "#1d6b43",
    Verdict.EARLY: "#7a5d00",
    Verdict.UNCHECKABLE: "#5b6472",
    Verdict.HALLUCINATED: "#b3261e",
}


def words_figure(view: View) -> Figure:
    """The image, then the map of every word with its top region; nouns carry their verdict in colour and mark."""
    count = len(view.attribution) + 1
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)
    shape = view.image.height / view.image.width
    figure = Figure(figsize=(INCHES * columns, (INCHES * shape + 0.35) * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    axes[0].imshow(view.image)
    axes[0].set_title(view.captioner or " ", fontsize=9)
    scores, maps = view.scores(), view.maps(224)
    for number, axis in enumerate(axes[1:count]):
        axis.imshow(view.image)
        axis.imshow(coloured(maps[number]), extent=(0, view.image.width, view.image.height, 0), interpolation="bicubic")
        if view.regions:
            _frame(axis, view, int(scores[number].argmax()))
        _name(axis, view, number)
    figure.suptitle(_headline(view), fontsize=9)
    return figure


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Write a figure in the format of its suffix."""
    path = Path(path)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:] or "png", dpi=150, facecolor="white")
    return path


def _frame(axis: Axes, view: View, number: int) -> None:
    region = view.regions[number]
    x1, y1, x2, y2 = region.box
    axis.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor="white", linewidth=1.6))
    if region.label:
        box = {"facecolor": "black", "alpha": 0.65, "edgecolor": "none", "pad": 1.2}
        axis.text(x1, y1, region.label, fontsize=7, color="white", va="top", bbox=box)


def _name(axis: Axes, view: View, number: int) -> None:
    verdict = view.verdict(number)
    mark = f" {MARKS[verdict]}" if verdict else ""
    ink = INKS[verdict] if verdict else "black"
    axis.set_title(view.attribution.words[number] + mark, fontsize=10, color=ink, fontfamily=["DejaVu Sans"])


def _headline(view: View) -> str:
    method = view.attribution.method.replace("_", " ")
    if view.grounding is None or view.grounding.problem:
        return method
    scores = ", ".join("–" if value is None else f"{100 * value:.1f}" for value in view.grounding.scores())
    return f"{method}   GroundingScore at δ 0, 1, 3, 5, ∞: [{scores}]"
