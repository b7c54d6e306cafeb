"""Boxes of image tokens that stand in a grid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from captrial.captioners.protocols import WHOLE
from captrial.errors import InputError

Floats = NDArray[np.float64]
NOWHERE = np.full((1, 4), np.nan)  # the box of a token that shows no part of the image


def grid_boxes(rows: int, columns: int, window: tuple[float, float, float, float] = WHOLE) -> Floats:
    """Boxes (rows x columns, 4) of the cells that tile `window`, row by row."""
    left, top, right, bottom = window
    x, y = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
    y1, x1 = np.meshgrid(y[:-1], x[:-1], indexing="ij")
    y2, x2 = np.meshgrid(y[1:], x[1:], indexing="ij")
    return np.stack([x1, y1, x2, y2], -1).reshape(-1, 4)


def tile_boxes(rows: int, columns: int, tokens: int) -> Floats:
    """Boxes of tiles that cut the image into rows and columns, each in a square grid of `tokens` tokens."""
    side = square_side(tokens)
    return np.concatenate([grid_boxes(side, side, tuple(tile)) for tile in grid_boxes(rows, columns)])


def square_side(tokens: int) -> int:
    """The side of a square grid of so many tokens."""
    side = math.isqrt(tokens)
    if side * side != tokens:
        raise InputError(f"{tokens} image tokens are no square grid: the layout of this checkpoint is not known")
    return side
