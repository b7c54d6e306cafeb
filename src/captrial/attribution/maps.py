"""Maps of words on the square that the model saw: painted or upsampled, 224 x 224, summing to 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from captrial.vision.preprocess import RESOLUTION

Floats = NDArray[np.float64]
WHOLE_AREA = 0.999


def square_maps(
    weights: NDArray[np.floating], boxes: NDArray[np.floating], grid: tuple[int, int] | None, size: int = RESOLUTION
) -> Floats:
    """Weights (words, elements) as maps (words, size, size) that sum to 1.

    Cells of a grid are upsampled bilinearly. Other elements are regions: each paints its weight, divided by its area,
    into its box, and overlaps add up; `boxes` (elements, 4) are relative to the square. The sign of a weight does not
    count. A word whose weights are all 0 has a uniform map: nothing is known of where it looked.
    """
    sizes: Floats = np.abs(np.asarray(weights, np.float64))
    if not sizes.shape[1]:
        return np.full((len(sizes), size, size), 1 / size**2)
    maps = _painted(sizes, boxes, size) if grid is None else _upsampled(sizes, grid, size)
    return normalised(maps)


def normalised(maps: Floats) -> Floats:
    """Maps (words, size, size) divided by their sums; uniform where the sum is 0."""
    sums = maps.sum((1, 2), keepdims=True)
    return np.where(sums > 0, maps / np.where(sums > 0, sums, 1), 1 / (maps.shape[1] * maps.shape[2]))


def grid_of(boxes: NDArray[np.floating]) -> tuple[int, int] | None:
    """Rows and columns where boxes (k, 4) tile the unit square row by row, else None.

    >>> grid_of(np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]]))
    (1, 2)
    """
    columns, rows = (len(np.unique(np.round(boxes[:, side], 3))) for side in (0, 1))
    if not len(boxes) or rows * columns != len(boxes):
        return None
    y, x = np.divmod(np.arange(len(boxes)), columns)
    cells = np.stack([x / columns, y / rows, (x + 1) / columns, (y + 1) / rows], 1)
    return (rows, columns) if np.allclose(boxes, cells, atol=2e-3) else None  # stores keep float16


def class_token(boxes: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which of the elements (k, 4) cover the whole square while the others tile it: a ViT's class token, or none."""
    whole = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) >= WHOLE_AREA
    tiled = whole.any() and not whole.all() and grid_of(boxes[~whole]) is not None
    return np.asarray(whole & tiled)


def _upsampled(weights: Floats, grid: tuple[int, int], size: int) -> Floats:
    rows, columns = grid
    if (rows, columns) == (size, size):
        return weights.reshape(-1, size, size)
    down, across = bilinear(rows, size), bilinear(columns, size)
    return np.asarray(down @ weights.reshape(-1, rows, columns) @ across.T)


def bilinear(cells: int, size: int) -> Floats:
    """The matrix (size, cells) that interpolates linearly between cell centres, constant beyond the outer ones."""
    place = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
    left = np.minimum(place.astype(int), max(cells - 2, 0))
    right = np.minimum(left + 1, cells - 1)
    matrix = np.zeros((size, cells))
    np.add.at(matrix, (np.arange(size), left), 1 - (place - left))
    np.add.at(matrix, (np.arange(size), right), place - left)
    return matrix


def _painted(weights: Floats, boxes: NDArray[np.floating], size: int) -> Floats:
    """Every pixel gets of a box what it covers of it, so that small boxes keep their weight."""
    boxes = np.clip(np.asarray(boxes, np.float64), 0, 1)
    x1, y1, x2, y2 = boxes.T
    density = weights / np.maximum((x2 - x1) * (y2 - y1), 1e-12)
    down, across = _covered(y1, y2, size), _covered(x1, x2, size)
    return np.asarray(np.einsum("wk,kh,kv->whv", density, down, across, optimize=True))


def _covered(low: Floats, high: Floats, size: int) -> Floats:
    """The share (k, size) of every pixel along one side that lies between `low` and `high`."""
    edges = np.arange(size + 1)
    return np.asarray(
        np.clip(np.minimum(high[:, None] * size, edges[1:]) - np.maximum(low[:, None] * size, edges[:-1]), 0, 1)
    )
