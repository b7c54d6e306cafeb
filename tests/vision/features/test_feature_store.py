"""The feature store: lazily read, resumable, refused where it does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from captrial.errors import DatasetError, MismatchError
from captrial.vision.features.feature_store import ELEMENTS, INDEX, FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features, stack_features

VISION = {"backbone": "test", "preprocess": {"size": 4}, "width": 3}


def regions(count: int, seed: int) -> Features:
    generator = torch.Generator().manual_seed(seed)
    boxes = torch.rand(1, count, 4, generator=generator)
    return Features(torch.randn(1, count, 3, generator=generator), torch.ones(1, count, dtype=torch.bool), boxes)


def test_round_trip_of_different_sizes(tmp_path: Path) -> None:
    with FeatureWriter(tmp_path, VISION) as writer:
        writer.add(["a", "b"], stack_features([regions(2, 0), regions(5, 1)]), [{"labels": ["dog", "cat"]}, {}])
    store = FeatureStore(tmp_path, VISION)
    assert len(store) == 2
    assert store.entry("a")["labels"] == ["dog", "cat"]
    found = store.get(["b", "a"])
    assert found.mask.sum(1).tolist() == [5, 2]
    assert torch.allclose(found.elements[1, :2], regions(2, 0).elements[0], atol=1e-3)
    with pytest.raises(DatasetError, match="no features of 'c'"):
        store.get(["c"])


def test_continues_after_a_kill(tmp_path: Path) -> None:
    """Rows without an index line, and half an index line, are what a kill leaves."""
    with FeatureWriter(tmp_path, VISION) as writer:
        writer.add(["a"], regions(2, 0))
    with (tmp_path / ELEMENTS).open("ab") as file:
        file.write(b"1234")
    with (tmp_path / INDEX).open("ab") as file:
        file.write(b'{"id": "b", "sta')
    with FeatureWriter(tmp_path, VISION) as writer:
        assert writer.done == {"a"}
        writer.add(["b"], regions(3, 1))
    found = FeatureStore(tmp_path).get(["b"])
    assert torch.allclose(found.elements, regions(3, 1).elements, atol=1e-3)


def test_another_backbone_is_refused(tmp_path: Path) -> None:
    FeatureWriter(tmp_path, VISION).close()
    for opening in (FeatureStore, FeatureWriter):
        with pytest.raises(MismatchError, match="preprocess"):
            opening(tmp_path, {**VISION, "preprocess": {"size": 8}})
    with pytest.raises(DatasetError, match="no feature store"):
        FeatureStore(tmp_path / "nowhere")
