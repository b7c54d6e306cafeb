"""Figures for reports: matplotlib without a screen, as SVG text that is the same for the same data."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from captrial.files import atomic_write

Floats = NDArray[np.float64]

INK, SOFT, GRID = "#1f2430", "#667085", "#e4e7ec"
CELL = "#1f2431"  # ink on the light cells of a matrix, in dark mode too
ACCENT, SECOND, THIRD, PALE = "#2f6fb0", "#d9822b", "#3f9d6c", "#c7ced8"
COLOURS = (ACCENT, SECOND, THIRD, "#8a63b8", "#b8505f")
_PAGE_COLOURS = {
    INK: "--chart-ink", SOFT: "--chart-soft", GRID: "--chart-grid", PALE: "--chart-pale", ACCENT: "--chart-accent"
}  # fmt: skip
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, sharp, searchable
    "svg.hashsalt": "captrial",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Liberation Sans", "Arial"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": PALE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Chart:
    """A figure as SVG, with the numbers it shows as a table."""

    name: str
    title: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def inline(self) -> str:
        """The figure for a page with others: unique ids, and colours of the page, which may be dark."""
        own = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{self.name}-", self.svg)
        return re.sub("|".join(_PAGE_COLOURS), lambda found: f"var({_PAGE_COLOURS[found[0]]}, {found[0]})", own)

    def write(self, folder: Path) -> Path:
        """The figure as a file of its own, on white: dark text on a dark page would vanish."""
        path = folder / f"{self.name}.svg"
        atomic_write(path, self.svg.replace("<svg ", '<svg style="background:#fff" ', 1))
        return path


def draw(size: tuple[float, float], paint: Callable[[Axes], None], legend: int = 0) -> str:
    """An SVG painted by a function; a legend of so many columns is put above it."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        paint(axes)
        if legend:
            figure.legend(loc="outside upper left", frameon=False, ncols=legend, columnspacing=1.2, handlelength=1.2)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def intervals(name: str, title: str, rows: Sequence[tuple[str, float, float, float]], label: str) -> Chart:
    """Dots with intervals: rows are (what, value, low, high), the first on top."""

    def paint(axes: Axes) -> None:
        places = np.arange(len(rows))[::-1]
        value, low, high = (np.array([row[column] for row in rows]) for column in (1, 2, 3))
        axes.hlines(places, low, high, color=ACCENT, linewidth=3, alpha=0.35)
        axes.plot(value, places, "o", color=ACCENT, markersize=6)
        _name_rows(axes, [row[0] for row in rows], label)

    svg = draw((4.8, 0.8 + 0.32 * len(rows)), paint)
    return Chart(name, title, svg, ("model", "value", "low", "high"), tuple(rows))


def matrix(name: str, title: str, names: Sequence[str], values: Floats, centre: float, log: bool) -> Chart:
    """A square matrix with its numbers written in; `centre` is where neither side is better."""

    def paint(axis: Axes) -> None:
        shown = np.log(values) if log else values
        middle = np.log(centre) if log else centre
        spread = max(float(np.nanmax(np.abs(shown - middle), initial=0.0)), 1e-9)
        norm = TwoSlopeNorm(middle, middle - spread, middle + spread)
        axis.imshow(np.ma.masked_invalid(shown), cmap="RdBu", norm=norm, aspect="auto")
        for row, column in np.ndindex(values.shape):
            if not np.isnan(values[row, column]):
                strong = abs(shown[row, column] - middle) > 0.6 * spread
                text = f"{values[row, column]:.2f}"
                axis.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if strong else CELL)
        axis.set_xticks(range(len(names)), names, rotation=35, ha="right")
        axis.set_yticks(range(len(names)), names)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)

    side = 1.8 + 0.5 * len(names)
    svg = draw((side + 0.8, side), paint)
    rows = tuple((model, *row) for model, row in zip(names, values.tolist(), strict=True))
    return Chart(name, title, svg, ("model", *names), rows)


def lines(
    name: str, title: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], labels: tuple[str, str]
) -> Chart:
    """Curves over a common axis."""

    def paint(axis: Axes) -> None:
        for colour, (heading, (x, y)) in zip(COLOURS, series.items(), strict=False):
            axis.plot(x, y, color=colour, linewidth=1.8, label=heading)
        axis.axhline(0.9, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)))
        axis.set_xlabel(labels[0])
        axis.set_ylabel(labels[1])
        axis.set_ylim(top=1.03)
        axis.set_yticks([tick for tick in axis.get_yticks() if axis.get_ylim()[0] <= tick <= 1])
        axis.grid(color=GRID)
        axis.set_axisbelow(True)

    svg = draw((5.6, 3.2), paint, legend=len(series))
    rows = tuple((heading, a, b) for heading, (x, y) in series.items() for a, b in zip(x, y, strict=True))
    return Chart(name, title, svg, ("metric", *labels), rows)


def bars(name: str, title: str, parts: Mapping[str, Sequence[float]], names: Sequence[str], label: str) -> Chart:
    """Horizontal bars, stacked where there are several parts."""
    palette = {1: (ACCENT,), 4: (THIRD, ACCENT, SECOND, PALE)}.get(len(parts), COLOURS)

    def paint(axes: Axes) -> None:
        places, left = np.arange(len(names))[::-1], np.zeros(len(names))
        for colour, (heading, values) in zip(palette, parts.items(), strict=False):
            axes.barh(places, values, left=left, color=colour, height=0.72, label=heading)
            left = left + np.array(values)
        _name_rows(axes, names, label)
        axes.set_xlim(0, max(1.0, 1.05 * float(left.max(initial=0.0))))

    legend = len(parts) if len(parts) > 1 else 0
    svg = draw((5.6, 0.9 + 0.26 * len(names) + 0.3 * bool(legend)), paint, legend=legend)
    rows = tuple((what, *(float(values[at]) for values in parts.values())) for at, what in enumerate(names))
    return Chart(name, title, svg, ("what", *parts), rows)


def dumbbells(
    name: str, title: str, rows: Sequence[tuple[str, float, float]], ends: tuple[str, str], label: str
) -> Chart:
    """Two values a row joined by a line: rows are (what, first, second)."""

    def paint(axes: Axes) -> None:
        places = np.arange(len(rows))[::-1]
        first, second = (np.array([row[column] for row in rows]) for column in (1, 2))
        axes.hlines(places, first, second, color=PALE, linewidth=2)
        axes.plot(first, places, "s", color=SECOND, label=ends[0])
        axes.plot(second, places, "o", color=ACCENT, label=ends[1])
        _name_rows(axes, [row[0] for row in rows], label)

    svg = draw((4.8, 1.1 + 0.32 * len(rows)), paint, legend=2)
    return Chart(name, title, svg, ("model", *ends), tuple(rows))


def _name_rows(axes: Axes, names: Sequence[str], label: str) -> None:
    """Names from top to bottom at the left, a quiet grid behind, the axis' meaning below."""
    axes.set_yticks(np.arange(len(names))[::-1], names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(label)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
