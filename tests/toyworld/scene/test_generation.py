"""Scenes: numbers of objects, and the distributions of the splits."""

from __future__ import annotations

from collections import Counter

import pytest

from captrial.records import Sample
from captrial.toyworld import OBJECT_CLASSES, SCENES, SYNONYMS, ToyWorld
from captrial.toyworld.scene.layout import Scene


def test_many_classes_and_scenes_appear(samples: dict[str, list[Sample]]) -> None:
    labels = {region.label for sample in samples["train"] for region in sample.regions}
    assert len(labels) >= 20
    assert {sample.extra["scene"] for sample in samples["train"]} == set(SCENES) - {"room"}
    assert set(SYNONYMS) == set(OBJECT_CLASSES)
    assert len(OBJECT_CLASSES) >= 20


@pytest.fixture(scope="module")
def scenes() -> dict[str, list[Scene]]:
    world = ToyWorld(seed=3)
    return {split: [world.scene(split, index) for index in range(800)] for split in ("train", "val", "test", "wild")}


def pairs(scenes: list[Scene], what: str) -> Counter[tuple[str, str]]:
    """How often a class goes with a place, or with a colour."""
    return Counter(
        (obj.label, scene.place if what == "place" else obj.colour) for scene in scenes for obj in scene.objects
    )


def total_variation(a: Counter[tuple[str, str]], b: Counter[tuple[str, str]]) -> float:
    return 0.5 * sum(abs(a[key] / a.total() - b[key] / b.total()) for key in set(a) | set(b))


def test_in_distribution_has_one_to_three_objects_and_wild_four_to_seven(scenes: dict[str, list[Scene]]) -> None:
    for split, wanted in (("train", {1, 2, 3}), ("val", {1, 2, 3}), ("test", {1, 2, 3}), ("wild", {4, 5, 6, 7})):
        assert {len(scene.objects) for scene in scenes[split]} == wanted


@pytest.mark.parametrize("what", ["place", "colour"])
def test_wild_is_another_distribution_and_test_is_not(scenes: dict[str, list[Scene]], what: str) -> None:
    train, test, wild = (pairs(scenes[split], what) for split in ("train", "test", "wild"))
    assert total_variation(train, test) < 0.2
    assert total_variation(train, wild) > 0.35
    assert sum(count for key, count in test.items() if key not in train) < 0.02 * test.total()
    assert sum(count for key, count in wild.items() if key not in train) > 0.2 * wild.total()
