"""`ToyWorld`: images depend only on seed, split and index; boxes are tight and masks are disjoint."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.errors import InputError
from captrial.files import content_hash
from captrial.records import Box, Sample
from captrial.toyworld import SPLITS, ToyWorld


@pytest.mark.parametrize("split", SPLITS)
def test_image_depends_on_seed_split_and_index_alone(split: str) -> None:
    first = ToyWorld(seed=1, size=64)
    images = {index: first.render(split, index) for index in (0, 7, 3)}
    again = ToyWorld(seed=1, size=64)
    for index in (3, 0, 7):  # another order, another world object
        image = again.render(split, index)
        assert np.array_equal(image.pixels, images[index].pixels)
        assert image.sample == images[index].sample
        assert all(
            np.array_equal(a.mask, b.mask)
            for a, b in zip(image.sample.regions, images[index].sample.regions, strict=True)
        )
    other = ToyWorld(seed=2, size=64).render(split, 0)
    assert not np.array_equal(other.pixels, images[0].pixels)


def test_annotations_alone_equal_those_of_the_rendered_image() -> None:
    world = ToyWorld(seed=5, size=96)
    for split in SPLITS:
        assert world.sample(split, 11) == world.render(split, 11).sample


@pytest.mark.parametrize("size", [32, 47, 101, 300, 512])
def test_any_size_can_be_rendered(size: int) -> None:
    world = ToyWorld(seed=6, size=size)
    for split in SPLITS:
        for index in range(4):
            image = world.render(split, index)
            assert image.pixels.shape == (size, size, 3)
            assert image.pixels.dtype == np.uint8
            assert all(0 <= r.box.x1 < r.box.x2 <= size for r in image.sample.regions)


def test_known_content_does_not_drift() -> None:
    """The words of an image do not depend on library versions; raise GENERATION where this must change."""
    scenes = [ToyWorld(seed=0).scene(split, index) for split in SPLITS for index in range(40)]
    names = [
        (s.place, s.light, s.links, [(t.label, t.form, t.pose, t.colour, t.size) for t in s.objects]) for s in scenes
    ]
    assert (scenes[0].place, [obj.label for obj in scenes[0].objects]) == ("park", ["person", "dog"])
    assert content_hash(repr(names)) == "8b8318a8a69d32d8"


def test_boxes_are_tight_around_masks(every: list[Sample]) -> None:
    for sample in every:
        for region in sample.regions:
            assert region.mask is not None
            rows, columns = np.nonzero(region.mask)
            assert region.box == Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


def test_a_pixel_belongs_to_one_object(every: list[Sample]) -> None:
    for sample in every:
        if sample.regions:
            assert np.sum([region.mask for region in sample.regions], axis=0).max() == 1


def test_bad_requests_are_refused() -> None:
    with pytest.raises(InputError, match="no split 'trian'"):
        ToyWorld().sample("trian", 0)
    with pytest.raises(InputError, match="negative"):
        ToyWorld().sample("train", -1)
    with pytest.raises(InputError, match="too small"):
        ToyWorld(size=8)
    with pytest.raises(InputError, match="4096 or less"):
        ToyWorld(size=100_000)
