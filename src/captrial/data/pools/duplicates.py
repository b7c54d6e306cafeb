"""Finding duplicates: exact ones by their bytes, near ones by a perceptual hash and a thumbnail.

`signature` computes a 64-bit perceptual hash, which finds candidate pairs, and a 16 x 16 thumbnail, which decides. It
finds copies that were encoded again, resized or slightly cropped.

The search takes less than quadratic time. Two hashes at most `d` bits apart have, among their four 16-bit bands, one at
most `d // 4` apart (pigeonhole). All hashes are indexed by each band, and an image is compared only with those within
`d // 4` bits of its own bands: some thousand of 370 000, and no pair is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from captrial.errors import InputError
from captrial.kernels import kernel

Array = NDArray[Any]
BANDS, BAND_BITS = 4, 16
MAX_DISTANCE = 15
MIN_CORRELATION = 0.93  # between 16 x 16 grey thumbnails; with distance 10, measured in docs/data.md
FLAT_VARIANCE = 4.0  # below this, an image has one colour and no pattern to correlate
FLAT_COLOUR = 6
SIDE, LOW, THUMB = 32, 8, 16
DRAFT = (4 * SIDE, 4 * SIDE)  # a JPEG decoded at this size gives the same signature several times faster
SIGNATURE_BYTES = THUMB * THUMB + 3


@cache
def _dct_rows() -> NDArray[np.float32]:
    """The first LOW rows of the orthonormal DCT-II matrix, (LOW, SIDE)."""
    frequency, place = np.ogrid[:LOW, :SIDE]
    matrix: NDArray[np.float64] = np.sqrt(2 / SIDE) * np.cos(np.pi * (2 * place + 1) * frequency / (2 * SIDE))
    matrix[0] /= np.sqrt(2)
    return matrix.astype(np.float32)


def signature(image: Image.Image) -> tuple[int, bytes]:
    """(64-bit DCT hash, 16 x 16 grey thumbnail followed by the mean colour) of an image in RGB.

    A bit of the hash is set where one of the 8 x 8 lowest frequencies is above their median.
    """
    small = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX, reducing_gap=3.0), np.float32)  # (32, 32, 3)
    grey = small @ np.array([0.299, 0.587, 0.114], np.float32)  # (32, 32)
    frequencies = (_dct_rows() @ grey @ _dct_rows().T).ravel()  # (64,)
    frequencies[np.abs(frequencies) < 0.5] = 0  # rounding noise of an image of one colour
    bits = frequencies > np.median(frequencies[1:])
    thumb = grey.reshape(THUMB, 2, THUMB, 2).mean((1, 3))
    summary = np.concatenate([thumb.ravel(), small.mean((0, 1))])
    return int.from_bytes(np.packbits(bits).tobytes(), "big"), np.rint(summary).astype(np.uint8).tobytes()


def exact_duplicates(digests: Sequence[str]) -> NDArray[np.int64]:
    """For each image, in order, the index of the first one with the same bytes, or -1 if it is the first.

    >>> exact_duplicates(["a", "b", "a"]).tolist()
    [-1, -1, 0]
    """
    first: dict[str, int] = {}
    earlier = [first.setdefault(digest, index) for index, digest in enumerate(digests)]
    return np.array([-1 if found == index else found for index, found in enumerate(earlier)], np.int64)


def near_duplicates(
    hashes: NDArray[np.uint64], signatures: NDArray[np.uint8], skip: NDArray[np.bool_], distance: int
) -> NDArray[np.int64]:
    """For each image, in order, the first earlier one that is kept and nearly the same, or -1.

    `hashes` (n,) and `signatures` (n, 259) come from `signature`; images in `skip` neither match nor are matched.
    A duplicate is not compared with later images, so the result depends only on the order.
    """
    if not 0 <= distance <= MAX_DISTANCE:
        raise InputError(f"the distance of near duplicates is {distance}; choose 0 to {MAX_DISTANCE} of 64 bits")
    bands = [(hashes >> np.uint64(BAND_BITS * band)).astype(np.uint16) for band in range(BANDS)]
    members = np.stack([np.argsort(band, kind="stable") for band in bands]).astype(np.int32)
    counts = np.stack([np.bincount(band, minlength=1 << BAND_BITS) for band in bands])
    starts = np.concatenate([np.zeros((BANDS, 1), np.int64), np.cumsum(counts, axis=1)], axis=1).astype(np.int32)
    every = np.arange(1 << BAND_BITS, dtype=np.uint16)
    masks = every[np.bitwise_count(every) <= distance // BANDS]
    found: NDArray[np.int64] = _first_earlier(
        hashes, signatures, skip, np.stack(bands), members, hashes[members], starts, masks, distance
    )
    return found


@kernel()
def _first_earlier(
    hashes: Array,
    signatures: Array,
    skip: Array,
    bands: Array,
    members: Array,
    filed: Array,
    starts: Array,
    masks: Array,
    distance: int,
) -> Array:
    count = len(hashes)
    model = np.full(count, -1, np.int64)
    for i in range(count):
        if skip[i]:
            continue
        best = i
        for band in range(BANDS):
            for mask in masks:
                bucket = bands[band, i] ^ mask
                for place in range(starts[band, bucket], starts[band, bucket + 1]):
                    j = members[band, place]  # ascending: nothing behind `best` can be better
                    if j >= best:
                        break
                    if _bits(hashes[i] ^ filed[band, place]) > distance or skip[j] or model[j] >= 0:
                        continue
                    if _similar(signatures[i], signatures[j]):
                        best = j
        if best < i:
            model[i] = best
    return model


@kernel()
def _bits(word: Any) -> Any:
    """Bits set in a 64-bit word: pairs, fours, eights, then their sum in the top byte."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel()
def _similar(a: Array, b: Array) -> bool:
    """Whether two thumbnails correlate, or both have the same single colour."""
    size = len(a) - 3
    sum_a = sum_b = sum_aa = sum_bb = sum_ab = 0.0
    for k in range(size):
        x, y = float(a[k]), float(b[k])
        sum_a += x
        sum_b += y
        sum_aa += x * x
        sum_bb += y * y
        sum_ab += x * y
    variance_a = sum_aa / size - (sum_a / size) ** 2
    variance_b = sum_bb / size - (sum_b / size) ** 2
    if variance_a < FLAT_VARIANCE or variance_b < FLAT_VARIANCE:
        for k in range(size, size + 3):
            if abs(float(a[k]) - float(b[k])) > FLAT_COLOUR:
                return False
        return variance_a < FLAT_VARIANCE and variance_b < FLAT_VARIANCE
    covariance = sum_ab / size - sum_a * sum_b / size / size
    return bool(covariance >= MIN_CORRELATION * np.sqrt(variance_a * variance_b))
