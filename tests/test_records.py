"""The nouns that every room shares, and the exception tree, keep what their docstrings promise."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captrial import errors
from captrial.records import Box, Caption, ImageRef, Phrase, Region, Sample

sides = st.integers(-50, 50)
boxes = st.builds(
    lambda x, y, width, height: Box(x, y, x + width, y + height), sides, sides, st.integers(1, 40), st.integers(1, 40)
)


@pytest.mark.parametrize(
    "record",
    [ImageRef("1"), Caption("1", "a dog"), Region(Box(0, 0, 1, 1)), Phrase("a dog", 0, 2), Sample(ImageRef("1"))],
    ids=lambda record: type(record).__name__,
)
def test_records_are_frozen_small_and_travel(record: object) -> None:
    name = next(iter(type(record).__dataclass_fields__))  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        setattr(record, name, None)
    assert not hasattr(record, "__dict__")
    assert pickle.loads(pickle.dumps(record)) == record


def test_regions_compare_without_their_masks() -> None:
    bare, masked = Region(Box(0, 0, 2, 2), "dog"), Region(Box(0, 0, 2, 2), "dog", mask=np.ones((2, 2), bool))
    assert bare == masked
    assert hash(bare) == hash(masked)


@given(a=boxes, b=boxes)
def test_boxes_against_counted_pixels(a: Box, b: Box) -> None:
    def pixels(box: Box) -> set[tuple[int, int]]:
        return {(x, y) for x in range(int(box.x1), int(box.x2)) for y in range(int(box.y1), int(box.y2))}

    inside, both = pixels(a), pixels(a) & pixels(b)
    common = a.intersection(b)
    assert a.area == len(inside)
    assert (pixels(common) if common else set()) == both
    assert a.iou(b) == b.iou(a) == pytest.approx(len(both) / len(inside | pixels(b)))


def test_an_empty_box_has_no_area_and_no_overlap() -> None:
    empty = Box(3, 3, 1, 5)
    assert empty.area == 0
    assert empty.intersection(Box(0, 0, 9, 9)) is None
    assert Box(0, 0, 9, 9).iou(empty) == 0


def test_every_error_is_ours_and_drawn_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    classes = [value for value in vars(errors).values() if getattr(value, "__module__", "") == errors.__name__]
    classes = [value for value in classes if isinstance(value, type)]
    assert len(classes) > 5
    for one in classes:
        assert issubclass(one, errors.CaptrialError)
        assert one.__name__ in tree


def test_a_missing_extra_says_its_pip_line() -> None:
    assert "pip install 'captrial[ray]'" in str(errors.MissingExtraError("running on a cluster", "ray"))
