"""The class distribution of a pool as a figure (MAD paper, Fig. 5): one bar a class, the largest first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from captrial.errors import InputError
from captrial.files import atomic_path

NAMED = 60  # up to so many classes have their names under their bars


def draw_classes(classes: Mapping[str, int], path: Path | str, title: str = "") -> None:
    """Write the sorted bar chart to `path` (.svg, .png or .pdf)."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise InputError(f"{path}: a figure is .svg, .png or .pdf; choose one of these suffixes")
    names = sorted(classes, key=lambda name: (-classes[name], name))
    counts = [classes[name] for name in names]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.bar(range(len(names)), counts, width=0.86 if len(names) <= NAMED else 1.0, color="#2f6f8f")
    axes.set_xlim(-0.6, max(len(names), 1) - 0.4)
    axes.set_ylabel("pictures")
    axes.set_title(title or f"{sum(counts)} pictures in {len(names)} classes", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    if len(names) <= NAMED:
        axes.set_xticks(
            range(len(names)), names, rotation=60 if len(names) > 8 else 0, ha="right" if len(names) > 8 else "center"
        )
        axes.tick_params(axis="x", labelsize=8, length=0)
    else:
        axes.set_xlabel("class, the largest first")
    # The same pool gives the same bytes: no date, no random ids.
    with rc_context({"svg.hashsalt": "captrial"}), atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
