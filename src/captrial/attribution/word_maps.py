"""Maps of words: distributions over the square that the model saw, and heat maps over the image for display."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from captrial.attribution.attribution import Attribution
from captrial.vision.preprocess import RESOLUTION

Floats = NDArray[np.float64]
LOW, HIGH = 2, 98  # percentiles of contrast stretching


def square_maps(
    weights: NDArray[np.floating], boxes: NDArray[np.floating], grid: tuple[int, int] | None, size: int = RESOLUTION
) -> Floats:
    """Weights (words, elements) as maps (words, size, size) that sum to 1.

    Cells of a grid are upsampled bilinearly. Other elements are regions: each paints its weight, divided by its area,
    into its box, and overlaps add up; `boxes` (elements, 4) are relative to the square. The sign of a weight does not
    count. A word whose weights are all 0 has a uniform map.
    """
    sizes: Floats = np.abs(np.asarray(weights, np.float64))
    if not sizes.shape[1]:
        return np.full((len(sizes), size, size), 1 / size**2)
    maps = _painted(sizes, boxes, size) if grid is None else _upsampled(sizes, grid, size)
    return normalised(maps)


def shares_inside(
    weights: NDArray[np.floating],
    boxes: NDArray[np.floating],
    grid: tuple[int, int] | None,
    mask: NDArray[np.bool_],
) -> Floats:
    """The share inside `mask` (s, s) of the maps that `square_maps` makes of weights (..., elements): (...).

    Maps are linear in the weights, so what an element puts inside is computed once for all of them.
    """
    sizes: Floats = np.abs(np.asarray(weights, np.float64))
    size = len(mask)
    if grid is None:
        x1, y1, x2, y2 = np.clip(np.asarray(boxes, np.float64), 0, 1).T
        down, across = _covered(y1, y2, size), _covered(x1, x2, size)
        area = np.maximum((x2 - x1) * (y2 - y1), 1e-12)
        inside = np.einsum("kh,hv,kv->k", down, mask.astype(np.float64), across, optimize=True) / area
        total = down.sum(1) * across.sum(1) / area
    else:
        matrices = bilinear(grid[0], size), bilinear(grid[1], size)
        inside = (matrices[0].T @ mask @ matrices[1]).reshape(-1)
        total = np.outer(matrices[0].sum(0), matrices[1].sum(0)).reshape(-1)
    sums = sizes @ total
    return np.asarray(np.where(sums > 0, sizes @ inside / np.where(sums > 0, sums, 1), mask.mean()))


def normalised(maps: Floats) -> Floats:
    """Maps (words, size, size) divided by their sums; uniform where the sum is 0."""
    sums = maps.sum((1, 2), keepdims=True)
    return np.where(sums > 0, maps / np.where(sums > 0, sums, 1), 1 / (maps.shape[1] * maps.shape[2]))


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


# Heat maps for display ----------------------------------------------------------------------------------------------


def stretch_contrast(scores: NDArray[np.floating]) -> Floats:
    """Each row scaled so that its percentiles 2 and 98 become 0 and 1, clipped to [0, 1]: for display.

    A row of equal scores is 0.5 throughout; where only outliers differ, they are 0 or 1 and the rest 0.5.

    >>> stretch_contrast(np.array([[3.0, 3.0, 3.0]])).tolist()
    [[0.5, 0.5, 0.5]]
    """
    values: Floats = np.asarray(scores, np.float64)
    if not values.size:
        return values
    low, high = np.percentile(values, [LOW, HIGH], axis=-1, keepdims=True)
    span = high - low
    flat = span <= 1e-12 * np.maximum(np.abs(high), np.abs(low))
    scaled = np.clip((values - low) / np.where(flat, 1, span), 0, 1)
    outliers = np.where(np.isclose(values, low, rtol=1e-9, atol=0), 0, np.sign(values - low))
    return np.where(flat, 0.5 + 0.5 * outliers, scaled)


def heat(attribution: Attribution, rows: int, columns: int) -> Floats:
    """Maps (words, rows, columns) over the whole image, each stretched to [0, 1]; what the model did not see is 0.

    Elements that tile a window are enlarged smoothly; regions paint their score into their box, the highest on top.
    """
    stretched = stretch_contrast(attribution.scores)
    if not stretched.shape[1]:
        return np.zeros((len(attribution), rows, columns))
    if attribution.grid is None:
        return _highest(stretched, attribution.boxes, rows, columns)
    left, top, right, bottom = (
        round(edge * side) for edge, side in zip(attribution.window, (columns, rows) * 2, strict=True)
    )
    maps = np.zeros((len(attribution), rows, columns))
    size = (max(right - left, 1), max(bottom - top, 1))
    for number, cells in enumerate(stretched.reshape(-1, *attribution.grid)):
        enlarged = Image.fromarray(cells.astype(np.float32)).resize(size, Image.Resampling.BICUBIC)
        place = np.clip(np.asarray(enlarged), 0, 1)[: rows - top, : columns - left]
        maps[number, top : top + place.shape[0], left : left + place.shape[1]] = place
    return maps


def _highest(scores: Floats, boxes: NDArray[np.floating], rows: int, columns: int) -> Floats:
    maps = np.zeros((len(scores), rows, columns))
    for element in range(len(boxes)):
        x1, y1, x2, y2 = np.clip(boxes[element], 0, 1) * (columns, rows, columns, rows)
        area = maps[:, math.floor(y1) : max(math.ceil(y2), 1), math.floor(x1) : max(math.ceil(x2), 1)]
        np.maximum(area, scores[:, element, None, None], out=area)
    return maps
