"""Images with captions under them, right ones in green and wrong ones in red (Wan 2022 Fig. 3 and 11)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from captrial.attribution.page import save_figure

COLUMNS = 3
INKS = {1: "#1d6b43", 0: "#b3261e", None: "#1f2430"}


@dataclass(frozen=True)
class Example:
    """An image by id, why it is shown, and (captioner, caption, right: 1, wrong: 0, not judged: None)."""

    image: str
    what: str
    captions: tuple[tuple[str, str, int | None], ...]


def draw_examples(examples: Sequence[tuple[Example, Image.Image]], path: Path) -> Path:
    """The images in rows of three, each with its captions; the format goes by the suffix."""
    rows = math.ceil(len(examples) / COLUMNS)
    figure = Figure(figsize=(3.4 * COLUMNS, 3.7 * rows))
    grid = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    figure.subplots_adjust(left=0.02, right=0.98, top=0.95, bottom=0.01, hspace=0.02, wspace=0.05)
    for axes in grid:
        axes.set_axis_off()
    for axes, (example, image) in zip(grid, examples, strict=False):
        _draw(axes, example, image)
    return save_figure(figure, path)


def _draw(axes: Axes, example: Example, image: Image.Image) -> None:
    axes.imshow(image)
    axes.set_anchor("N")
    axes.set_title(example.what, fontsize=9)
    place = -0.03
    for name, caption, right in example.captions:
        text = textwrap.fill(f"{name}: {caption}", 46)
        axes.text(0, place, text, transform=axes.transAxes, va="top", fontsize=8, color=INKS[right], parse_math=False)
        place -= 0.075 * (text.count("\n") + 1)
