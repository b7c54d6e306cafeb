"""Regions of a picture on the square that a model sees: after resizing, and after the crop where there is one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from captrial.records import Box, Region
from captrial.vision.preprocess import Preprocess

RESOLUTION = 224  # side of the square that maps are painted on (003)


def mask_on_square(
    region: Region, width: int, height: int, preprocess: Preprocess, resolution: int = RESOLUTION
) -> NDArray[np.bool_]:
    """Which pixels of the square (resolution, resolution) lie in a region of a `width` x `height` picture.

    A region that carries a mask is its mask, else its box; a pixel counts by its centre.
    """
    centres = (np.arange(resolution) + 0.5) / resolution
    whole = preprocess.to_picture(Box(0, 0, 1, 1), width, height)
    x = whole.x1 + centres * (whole.x2 - whole.x1)
    y = whole.y1 + centres * (whole.y2 - whole.y1)
    if region.mask is not None:
        rows, columns = np.clip(y.astype(int), 0, height - 1), np.clip(x.astype(int), 0, width - 1)
        return np.asarray(region.mask[np.ix_(rows, columns)])
    box = region.box
    return np.outer((y >= box.y1) & (y < box.y2), (x >= box.x1) & (x < box.x2))


def union_on_square(
    regions: Iterable[Region], width: int, height: int, preprocess: Preprocess, resolution: int = RESOLUTION
) -> NDArray[np.bool_]:
    """Which pixels of the square lie in any of the regions; nothing is left where all were cropped away."""
    union = np.zeros((resolution, resolution), dtype=bool)
    for region in regions:
        union |= mask_on_square(region, width, height, preprocess, resolution)
    return union
