"""Masks and polygons against pycocotools: every bit must agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pycocotools import mask as theirs

from captrial.data.datasets import masks

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # inside pycocotools

MASKS = arrays.arrays(bool, arrays.array_shapes(min_dims=2, max_dims=2, max_side=40))
POINTS = st.tuples(st.floats(-30, 90), st.floats(-30, 90)) | st.tuples(st.integers(-5, 60), st.integers(-5, 60))


def pycocotools_mask(polygon: list[tuple[float, float]], height: int, width: int) -> np.ndarray:
    flat = [float(number) for point in polygon for number in point]
    return np.asarray(theirs.decode(theirs.frPyObjects([flat], height, width))[:, :, 0], bool)


@given(MASKS)
@settings(max_examples=300)
def test_encoding(mask: np.ndarray) -> None:
    reference = theirs.encode(np.asfortranarray(mask, np.uint8))
    assert masks.encode(mask) == {"size": reference["size"], "counts": reference["counts"].decode()}


@given(MASKS)
@settings(max_examples=300)
def test_decoding(mask: np.ndarray) -> None:
    reference = theirs.encode(np.asfortranarray(mask, np.uint8))
    assert np.array_equal(masks.decode(reference), mask)
    counts = masks.mask_to_counts(mask).tolist()
    assert np.array_equal(masks.decode({"size": list(mask.shape), "counts": counts}), mask)


def test_long_runs_and_large_differences() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        mask = np.kron(random.random((6, 7)) < 0.5, np.ones(random.integers(1, 300, 2), bool)).astype(bool)
        reference = theirs.encode(np.asfortranarray(mask, np.uint8))
        assert str(masks.encode(mask)["counts"]).encode() == reference["counts"]
        assert np.array_equal(masks.decode(reference), mask)


@given(st.lists(POINTS, min_size=3, max_size=12), st.integers(1, 70), st.integers(1, 70))
@settings(max_examples=500, deadline=None)
def test_polygons(polygon: list[tuple[float, float]], height: int, width: int) -> None:
    ours = masks.polygon_to_mask(np.array(polygon, float), height, width)
    assert np.array_equal(ours, pycocotools_mask(polygon, height, width))


def test_smooth_outlines_of_real_sizes() -> None:
    random = np.random.default_rng(1)
    angles = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    for _ in range(50):
        radius = random.uniform(20, 200) + random.normal(0, 8, 80)
        centre = random.uniform(0, 500, 2)
        outline = np.round(centre + radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1), 2)
        ours = masks.polygon_to_mask(outline, 480, 640)
        assert np.array_equal(ours, pycocotools_mask([tuple(point) for point in outline], 480, 640))
