"""Boxes from maps: the connected areas of a map above several shares of its peak, and how much of it each holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from captrial.vision.boxes import suppress

Floats = NDArray[np.float64]


class Peak(NamedTuple):
    """A connected area of a map: its relative box (x1, y1, x2, y2), and how well it stands for the map, in (0, 1]."""

    box: tuple[float, float, float, float]
    worth: float


def find_peaks(values: Floats, shares: Sequence[float], smallest: float = 0.0, iou: float = 0.5) -> list[Peak]:
    """Areas of a map (h, w) above `shares` of its maximum, best first; boxes overlapping a better one are left out.

    A low share shows how far a thing reaches, a high one separates what touches. An area is worth its own maximum, as a
    share of the map's; areas above the second share half of that, above the third a quarter: they are second thoughts.
    Areas under `smallest` of the map are noise.
    """
    if values.max() <= 0:
        return []
    scaled = values / values.max()
    found = [
        Peak(box, height * 0.5**level)
        for level, share in enumerate(shares)
        for box, height in _areas(scaled, share, smallest)
    ]
    kept = suppress([peak.box for peak in found], [peak.worth for peak in found], iou)
    return [found[index] for index in kept]


def _areas(values: Floats, level: float, smallest: float) -> Iterator[tuple[tuple[float, float, float, float], float]]:
    """Box and highest value of every connected area from `level` on."""
    height, width = values.shape
    numbered, _ = ndimage.label(values >= level, np.ones((3, 3)))
    for number, (rows, columns) in enumerate(ndimage.find_objects(numbered), 1):
        inside = numbered[rows, columns] == number
        if inside.sum() >= smallest * values.size:
            box = (columns.start / width, rows.start / height, columns.stop / width, rows.stop / height)
            yield box, float(values[rows, columns][inside].max())
