"""The figure of a training run: loss and reward on the left axis, validation CIDEr on the right."""

from __future__ import annotations

import csv
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from captrial.files import atomic_path
from captrial.training.loop import METRICS


def draw_metrics(run: Path) -> None:
    """Draw `metrics.csv` of a run as `metrics.png`."""
    with (run / METRICS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left = figure.add_subplot()
    right = left.twinx()
    for column, axis, colour in (
        ("loss", left, "tab:blue"),
        ("reward", left, "tab:green"),
        ("cider", right, "tab:red"),
    ):
        points = [(float(row["seconds"]) / 60, float(row[column])) for row in rows if row[column]]
        if points:
            axis.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=column)
    left.set_xlabel("minutes")
    left.set_ylabel("loss, reward")
    right.set_ylabel("validation CIDEr")
    figure.legend(loc="outside upper center", ncols=3)
    with atomic_path(run / "metrics.png") as temporary:
        figure.savefig(temporary, dpi=120)
