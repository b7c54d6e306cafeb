"""Which features a captioner of a study has."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from captrial.papers.study_captioners import holds_regions
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features


@pytest.mark.parametrize(("boxes", "regions"), [(torch.rand(4, 4).sort(1).values, True), (grid_boxes(2, 2), False)])
def test_bottom_up_features_are_regions_and_imported_grids_are_not(
    boxes: torch.Tensor, regions: bool, tmp_path: Path
) -> None:
    with FeatureWriter(tmp_path, {"backbone": "precomputed:any", "width": 3}) as writer:
        writer.add(["a"], Features(torch.zeros(1, 4, 3), torch.ones(1, 4, dtype=torch.bool), boxes[None]))
    assert holds_regions(FeatureStore(tmp_path)) is regions
