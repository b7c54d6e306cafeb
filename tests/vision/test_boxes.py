"""Areas of masks inside boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from captrial.vision.boxes import common_areas, mask_areas

sides = st.floats(-0.25, 1.25, allow_subnormal=False)
masks = arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def slow(mask: np.ndarray, box: tuple[float, ...]) -> float:
    """Pixel by pixel: what of it lies in the box."""
    height, width = mask.shape
    pixels = [(x / width, y / height, (x + 1) / width, (y + 1) / height) for y, x in np.argwhere(mask).tolist()]
    return float(common_areas(pixels, [box]).sum()) if pixels else 0.0


@given(masks, st.lists(st.tuples(sides, sides, sides, sides), min_size=1, max_size=5))
def test_areas_are_those_of_the_pixels(mask: np.ndarray, corners: list[tuple[float, ...]]) -> None:
    """Also where boxes cut through pixels, or reach beyond the image."""
    boxes = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    assert mask_areas(mask, boxes) == pytest.approx([slow(mask, box) for box in boxes], abs=1e-9)


def test_what_is_outside_of_a_mask_is_nothing() -> None:
    """Exactly 0, also with boundaries that are no fractions of two: a region that was not seen is not used."""
    mask = np.zeros((7, 7), bool)
    mask[:, 5:] = True
    cells = [(x / 7, y / 7, (x + 1) / 7, (y + 1) / 7) for y in range(7) for x in range(5)]
    assert not mask_areas(mask, cells).any()
