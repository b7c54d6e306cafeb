"""Figures like Liu 2017's: target maps (Fig. 3), histograms of improvement (Fig. 4), maps side by side (Fig. 5 and 6).

Drawn by matplotlib without a screen; the format goes by the file's suffix (.png, .pdf, .svg).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image

from captrial.attribution.maps import stretch_contrast
from captrial.errors import InputError
from captrial.files import atomic_path
from captrial.records import Box

Floats = NDArray[np.float64]
COLOURS = ("#2f6fb0", "#d9822b", "#3f9d6c", "#8a63b8")
BOX = "#e5484d"
TEXT: dict[str, Any] = {"fontsize": 8}


@dataclass(frozen=True, eq=False)
class Panel:
    """A map on an image: its title, the boxes it should lie in, and a line below."""

    title: str
    map: Floats | None = None  # (s, s); None shows the image alone
    boxes: tuple[Box, ...] = ()  # relative to the square
    below: str = ""


def draw_panels(rows: Sequence[tuple[Image.Image, Sequence[Panel]]], path: Path, captions: Sequence[str] = ()) -> Path:
    """Images in rows, panels side by side (Fig. 3, 5, 6); `captions` stand under the rows.

    Images are the squares that the model saw; a map is stretched in contrast and laid over in yellow.
    """
    if not rows:
        raise InputError("no panel to draw: no phrase was measured")
    columns = max(len(panels) for _, panels in rows)
    figure = Figure(figsize=(2.1 * columns, 2.85 * len(rows)), dpi=150)
    figure.set_layout_engine("constrained", h_pad=0.24)  # room for the captions
    grid: Any = figure.subplots(len(rows), columns, squeeze=False)
    lines = []
    for number, (image, panels) in enumerate(rows):
        for column in range(columns):
            axes = grid[number][column]
            axes.set_axis_off()
            if column < len(panels):
                _draw_panel(axes, image, panels[column])
        if captions:
            text = textwrap.fill(captions[number], 30 * columns)
            lines.append(grid[number][0].text(0, -0.13, text, transform=grid[number][0].transAxes, va="top", **TEXT))
            lines[-1].set_in_layout(False)  # it runs under all panels of the row
    figure.draw_without_rendering()  # panels have their places now
    figure.set_layout_engine("none")
    for line in lines:
        line.set_in_layout(True)  # else the last one would be cut off
    return _save(figure, path)


def _draw_panel(axes: Axes, image: Image.Image, panel: Panel) -> None:
    pixels = np.asarray(image.convert("RGB"), np.float64) / 255
    side = len(pixels)
    if panel.map is not None:
        light = np.asarray(_resized(stretch_contrast(panel.map.reshape(1, -1)).reshape(panel.map.shape), side))
        grey = np.repeat(pixels.mean(2, keepdims=True), 3, axis=2) * 0.45
        pixels = np.clip(grey + light[..., None] * (0.35 * pixels + np.array([0.42, 0.36, 0.05])), 0, 1)
    axes.imshow(pixels)
    for box in panel.boxes:
        corner, width, height = (box.x1 * side - 0.5, box.y1 * side - 0.5), box.x2 - box.x1, box.y2 - box.y1
        axes.add_patch(Rectangle(corner, width * side, height * side, fill=False, edgecolor=BOX, linewidth=1.6))
    axes.set_title(panel.title, **TEXT)
    if panel.below:
        axes.text(0.5, -0.03, panel.below, transform=axes.transAxes, ha="center", va="top", fontsize=7)


def _resized(values: Floats, side: int) -> Floats:
    image = Image.fromarray(values.astype(np.float32)).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image, np.float64)


def draw_histograms(improvements: Mapping[str, Floats], path: Path, title: str = "") -> Path:
    """Histograms of correctness minus baseline, a line a model (Fig. 4): the more to the right the better."""
    figure = Figure(figsize=(5.2, 3.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    edges = np.linspace(-1, 1, 41).tolist()
    for number, (model, values) in enumerate(improvements.items()):
        colour = COLOURS[number % len(COLOURS)]
        style = ("-", "--", ":", "-.")[number % 4]  # told apart without colours too
        mean = f", mean {values.mean():+.3f}" if len(values) else ", no phrase"
        weights = np.full(len(values), 1 / max(len(values), 1))
        axes.hist(
            values, edges, weights=weights, histtype="step", color=colour, linestyle=style, label=f"{model}{mean}"
        )
    axes.axvline(0, color="#98a2b3", linewidth=0.8)
    axes.set_xlabel("attention correctness minus uniform baseline")
    axes.set_ylabel("share of phrases")
    axes.set_title(title, fontsize=9)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center")
    axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _save(figure: Figure, path: Path) -> Path:
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise InputError(f"{path}: figures are written as .png, .pdf or .svg")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], facecolor="white", bbox_inches="tight")
    return path
