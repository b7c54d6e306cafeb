"""What a picture looks like in 8 bytes, and in 259: enough to find its re-encoded, resized and trimmed copies.

The perceptual hash finds candidates among hundreds of thousands; the thumbnail decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE, LOW, THUMB = 32, 8, 16
DRAFT = (4 * SIDE, 4 * SIDE)  # a JPEG this small says as much, and decodes several times faster
SIGNATURE_BYTES = THUMB * THUMB + 3


def _dct_rows(side: int, low: int) -> NDArray[np.float32]:
    """The first `low` rows of the orthonormal DCT-II matrix."""
    frequency, place = np.ogrid[:low, :side]
    matrix: NDArray[np.float64] = np.sqrt(2 / side) * np.cos(np.pi * (2 * place + 1) * frequency / (2 * side))
    matrix[0] /= np.sqrt(2)
    return matrix.astype(np.float32)


_DCT = _dct_rows(SIDE, LOW)


def signature(picture: Image.Image) -> tuple[int, bytes]:
    """(64-bit DCT hash, 16 x 16 grey thumbnail followed by the mean colour) of a picture in RGB.

    A bit of the hash says whether one of the 8 x 8 lowest frequencies is above their median.
    """
    small = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX, reducing_gap=3.0), np.float32)  # (32, 32, 3)
    grey = small @ np.array([0.299, 0.587, 0.114], np.float32)  # (32, 32)
    frequencies = (_DCT @ grey @ _DCT.T).ravel()  # (64,)
    frequencies[np.abs(frequencies) < 0.5] = 0  # rounding noise of a picture of one colour
    bits = frequencies > np.median(frequencies[1:])
    thumb = grey.reshape(THUMB, 2, THUMB, 2).mean((1, 3))
    summary = np.concatenate([thumb.ravel(), small.mean((0, 1))])
    return int.from_bytes(np.packbits(bits).tobytes(), "big"), np.rint(summary).astype(np.uint8).tobytes()
