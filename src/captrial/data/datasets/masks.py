"""COCO's run-length encoded masks and polygons, in numpy; equal to pycocotools (see tests/parity/test_rle.py).

A mask (height, width) is read column by column; `counts` are the lengths of its runs of 0, 1, 0, 1, ... To compress
them, each count from the fourth on is replaced by its difference to the one two before, then written as characters of
five bits, least significant first, with bit 6 set where more follow, shifted by 48 into printable ASCII.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from captrial.errors import DatasetError

Counts = NDArray[np.int64]
LARGEST_MASK = 1 << 30  # pixels; larger sizes in a file are refused
_SCALE = 5  # polygon boundaries are traced on a grid five times finer than the pixels


def encode(mask: NDArray[np.bool_]) -> dict[str, object]:
    """The compressed RLE of a mask (height, width).

    >>> encode(np.eye(2, dtype=bool))
    {'size': [2, 2], 'counts': '0120'}
    """
    return {"size": list(mask.shape), "counts": compress(mask_to_counts(mask))}


def decode(segmentation: Mapping[str, object], where: str = "segmentation") -> NDArray[np.bool_]:
    """The mask (height, width) of an RLE object, whose counts are numbers, or compressed as text or bytes."""
    height, width = _size(segmentation.get("size"), where)
    counts = segmentation.get("counts")
    if isinstance(counts, str | bytes):
        runs = decompress(counts, where)
    elif isinstance(counts, Sequence) and all(type(count) is int for count in counts):
        runs = np.array([min(max(count, -1), LARGEST_MASK + 1) for count in counts], np.int64)
    else:
        raise DatasetError(f"{where}: RLE 'counts' must be whole numbers or a string")
    return counts_to_mask(runs, height, width, where)


def mask_to_counts(mask: NDArray[np.bool_]) -> Counts:
    """Run lengths of a mask, column by column; the first run is zeros and may have length 0."""
    flat = np.asarray(mask, bool).ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    start = [0, 0] if flat.size and flat[0] else [0]
    return np.diff(np.concatenate([start, changes, [flat.size]])).astype(np.int64)


def counts_to_mask(counts: Counts, height: int, width: int, where: str = "segmentation") -> NDArray[np.bool_]:
    """The mask (height, width) of run lengths; they must be non-negative and cover it exactly."""
    total = sum(counts.tolist())  # Python integers, which malicious counts cannot overflow
    if (counts < 0).any() or total != height * width:
        raise DatasetError(f"{where}: the runs of the mask cover {total} pixels, the image has {height * width}")
    values = (np.arange(len(counts)) % 2).astype(bool)
    return np.repeat(values, counts).reshape(height, width, order="F")


def compress(counts: Counts) -> str:
    """Counts as COCO's printable characters.

    >>> compress(np.array([5, 3, 100, 4]))
    '53T31'
    """
    values = counts.astype(np.int64)
    values[3:] -= counts[1:-2]
    # The number of five-bit digits a value needs, its sign bit included.
    digits = np.ones(len(values), np.int64)
    for shift in range(5, 64, 5):
        digits += (values >> (shift - 1) != 0) & (values >> (shift - 1) != -1)
    ends = np.cumsum(digits)
    place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - digits, digits)
    more = place < np.repeat(digits, digits) - 1
    characters = ((np.repeat(values, digits) >> (5 * place)) & 31) + 32 * more + 48
    return str(characters.astype(np.uint8).tobytes(), "ascii")


def decompress(text: str | bytes, where: str = "segmentation") -> Counts:
    """The counts encoded by COCO's printable characters."""
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    codes = np.frombuffer(raw, np.uint8).astype(np.int64) - 48
    if len(codes) and (codes.min() < 0 or codes.max() > 63 or codes[-1] & 32):
        raise DatasetError(f"{where}: the compressed RLE has an impossible character or ends too early")
    last = np.flatnonzero(codes & 32 == 0)
    digits = np.diff(last, prepend=-1)
    if len(digits) and digits.max() > 12:
        raise DatasetError(f"{where}: a run in the compressed RLE is longer than any image")
    place = np.arange(len(codes)) - np.repeat(last - digits + 1, digits)
    values = _sums((codes & 31) << (5 * place), digits)
    negative = codes[last] & 16 != 0
    values[negative] -= np.int64(1) << np.minimum(5 * digits[negative], 62)
    values[1::2] = np.cumsum(values[1::2])  # differences run over the even and the odd places; the first is alone
    values[2::2] = np.cumsum(values[2::2])
    return values


def polygons_to_mask(polygons: Sequence[NDArray[np.float64]], height: int, width: int) -> NDArray[np.bool_]:
    """The union (height, width) of polygons (points, 2), by the rules of COCO's own rasteriser."""
    mask = np.zeros((height, width), bool)
    for polygon in polygons:
        mask |= polygon_to_mask(polygon, height, width)
    return mask


def polygon_to_mask(polygon: NDArray[np.float64], height: int, width: int) -> NDArray[np.bool_]:
    """One polygon (points, 2) as a mask (height, width).

    The boundary is traced on the finer grid; where it crosses the centre line of a pixel column, the pixels below the
    crossing are toggled. Counting crossings modulo 2 fills the polygon.
    """
    u, v = _boundary(np.trunc(_SCALE * polygon + 0.5).astype(np.int64))
    step = np.flatnonzero(u[1:] != u[:-1]) + 1
    column = (np.where(u[step] < u[step - 1], u[step], u[step] - 1) + 0.5) / _SCALE - 0.5
    inside = (column == np.floor(column)) & (column >= 0) & (column <= width - 1)
    step, column = step[inside], column[inside]
    row = (np.minimum(v[step], v[step - 1]) + 0.5) / _SCALE - 0.5
    row = np.ceil(np.clip(row, 0, height))
    crossings = np.sort((column * height + row).astype(np.int64))
    runs = np.diff(crossings, prepend=0, append=height * width)  # a crossing at the very end leaves an empty run
    return counts_to_mask(runs, height, width)


def _boundary(points: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every grid point on the closed outline through `points` (n, 2), each edge with both its ends."""
    start, end = points, np.roll(points, -1, axis=0)
    span = np.abs(end - start)
    wide = span[:, 0] >= span[:, 1]
    length = span.max(axis=1)
    along = np.where(wide, 0, 1)  # the axis along which each edge is traced, one grid step at a time
    rows = np.arange(len(points))
    # Edges are traced from their lower end, so that rounding does not depend on their direction.
    backward = start[rows, along] > end[rows, along]
    low, high = np.where(backward[:, None], end, start), np.where(backward[:, None], start, end)
    slope = (high - low)[rows, 1 - along] / np.maximum(length, 1)

    edge = np.repeat(rows, length + 1)
    place = np.arange(len(edge)) - np.repeat(np.cumsum(length + 1) - length - 1, length + 1)
    place = np.where(backward[edge], length[edge] - place, place)
    main = place + low[edge, along[edge]]
    other = np.trunc(low[edge, 1 - along[edge]] + slope[edge] * place + 0.5).astype(np.int64)
    return np.where(wide[edge], main, other), np.where(wide[edge], other, main)


def _sums(values: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of consecutive groups of the given lengths (each at least 1)."""
    if not len(lengths):
        return np.zeros(0, np.int64)
    return np.add.reduceat(values, np.cumsum(lengths) - lengths)


def _size(size: object, where: str) -> tuple[int, int]:
    if not (isinstance(size, list) and len(size) == 2 and all(type(side) is int and side > 0 for side in size)):
        raise DatasetError(f"{where}: RLE 'size' must be [height, width], found {size!r}")
    if size[0] * size[1] > LARGEST_MASK:
        raise DatasetError(f"{where}: a mask of {size[0]} x {size[1]} pixels is refused")
    return size[0], size[1]
