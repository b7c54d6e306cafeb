"""Target maps of supervised attention: painted, cropped, averaged, normalised."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.records import Box, ImageRef, Phrase, Region, Sample
from captrial.training.attention_supervision import paint, strong_targets, to_elements, weak_targets
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.preprocess import Preprocess

GRID = grid_boxes(2, 2).double().numpy()


def sample(*regions: Region) -> Sample:
    return Sample(ImageRef("1", width=200, height=100), ("a dog runs",), regions=regions)


def test_area_averaging_on_a_grid() -> None:
    """The left half of the image, seen whole: both left cells, equally."""
    square = paint([(Region(Box(0, 0, 100, 100)), 1.0)], sample(), Preprocess())
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0.5, 0, 0.5, 0])


def test_boxes_move_with_the_crop() -> None:
    """The centre crop of a 200 x 100 image keeps x from 56 to 144 (87.5 of 256/224)."""
    crop = Preprocess(224, "crop", 256)
    assert paint([(Region(Box(0, 0, 50, 100)), 1.0)], sample(), crop) is None  # cropped away: no target
    square = paint([(Region(Box(0, 0, 100, 100)), 1.0)], sample(), crop)
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0.5, 0, 0.5, 0])
    moved = crop.move_box(Box(56.25, 6.25, 143.75, 93.75), 200, 100)
    assert moved == pytest.approx(Box(0, 0, 1, 1))
    assert crop.to_image(Box(0, 0, 1, 1), 200, 100) == pytest.approx(Box(56.25, 6.25, 143.75, 93.75))


def test_overlaps_take_the_maximum() -> None:
    regions = [(Region(Box(0, 0, 200, 100)), 0.5), (Region(Box(0, 0, 100, 50)), 1.0)]
    square = paint(regions, sample(), Preprocess())
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_masks_are_used_where_there_are_some() -> None:
    mask = np.zeros((100, 200), dtype=bool)
    mask[50:, 100:] = True
    square = paint([(Region(Box(0, 0, 200, 100), mask=mask), 1.0)], sample(), Preprocess())
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0, 0, 0, 1])


def test_regions_without_overlap_fall_back_to_the_nearest_box() -> None:
    square = np.zeros((224, 224))
    square[0:4, 0:4] = 1
    boxes = np.array([[0.5, 0.5, 1, 1], [0.1, 0.1, 0.4, 0.4]])
    assert to_elements(square, boxes).tolist() == [0, 1]
    assert to_elements(None, GRID).tolist() == [0.25] * 4


def test_a_image_without_elements_has_no_shares() -> None:
    for square in (np.ones((224, 224)), None):
        assert to_elements(square, np.zeros((0, 4))).tolist() == []


def test_strong_targets_follow_phrases() -> None:
    region = Region(Box(0, 0, 100, 100), "dog")
    phrases = ((Phrase("a dog", 0, 2, (region,)),),)
    made = Sample(ImageRef("1", width=200, height=100), ("a dog runs",), regions=(region,), phrases=phrases)
    found = strong_targets([made], Preprocess()).maps(0, 0)
    assert sorted(found) == [0, 1]


def test_weak_targets_link_nouns_to_classes() -> None:
    made = sample(Region(Box(0, 0, 100, 100), "dog"), Region(Box(100, 0, 200, 100), "car"))
    similar = {("puppy", "dog"): 0.9, ("puppy", "car"): 0.1}
    targets = weak_targets(
        [made],
        Preprocess(),
        [[[(1, "puppy"), (3, "beach"), (5, "idea")]]],
        lambda word, name: similar.get((word, name), 0.0),
        0.5,
        frozenset({"beach"}),
    )
    found = targets.maps(0, 0)
    assert sorted(found) == [1, 3]
    assert found[3] is None
    assert to_elements(found[1], GRID).tolist() == pytest.approx([0.5, 0, 0.5, 0])


def test_scene_words_have_uniform_targets() -> None:
    made = sample(Region(Box(0, 0, 100, 100), "spoon"))
    targets = weak_targets([made], Preprocess(), [[[(1, "kitchen")]]], lambda *_: 0.9, 0.5, frozenset({"kitchen"}))
    assert targets.maps(0, 0) == {1: None}
