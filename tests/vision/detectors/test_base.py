"""The region contract: boxes, pooled features, padding, and errors where a feature cannot be had."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from captrial.errors import InputError
from captrial.records import Box
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.boxes import iou_matrix, pool_cells, suppress
from captrial.vision.detectors.base import Detection, Detector, RegionBackbone, pack_regions, region_notes
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.preprocess import Preprocess


class Colours(Backbone):
    """The mean colour of each cell of a 4 x 4 grid."""

    name, width = "colours", 3

    def __init__(self, mode: str = "stretch") -> None:
        super().__init__()
        self.preprocess = Preprocess(32, mode, 32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))  # type: ignore[arg-type]
        self.anchor = torch.nn.Parameter(torch.zeros(()))

    def elements(self, pixels: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(pixels, 8).flatten(2).transpose(1, 2)

    def cells(self) -> Tensor:
        return grid_boxes(4, 4)


class Halves:
    """Finds the red left half of an image, and in wide images the right half too, which it is surer of."""

    name, labels, width = "halves", ("left", "right"), None

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        found = []
        for image in images:
            middle, right, bottom = image.width / 2, image.width, image.height
            left = Detection(Box(0, 0, middle, bottom), "left", 0.5, attributes=("red",))
            both = [left, Detection(Box(middle, 0, right, bottom), "right", 0.9)]
            found.append(both if right > bottom else [left] if right == bottom else [])
        return found

    def describe(self) -> dict[str, Any]:
        return {"detector": self.name}


def image(width: int, height: int) -> Image.Image:
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = 255
    return Image.fromarray(pixels)


def test_regions_have_the_features_of_their_place() -> None:
    backbone = RegionBackbone(Halves(), Colours())
    assert isinstance(backbone.detector, Detector)
    images = [image(64, 32), image(40, 40), image(32, 64)]
    features = backbone.extract(images)
    assert features.boxes is not None
    assert features.mask.tolist() == [[True, True], [True, False], [True, False]]
    assert torch.allclose(features.elements[0], torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), atol=0.05)
    assert features.boxes[0].tolist() == [[0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0]]
    assert torch.allclose(features.elements[2, 0], torch.tensor([0.5, 0.0, 0.5]), atol=0.05)  # nothing: all of it
    assert [[region.label for region in each] for each in backbone.regions(images)] == [
        ["right", "left"],
        ["left"],
        [None],
    ]


def test_padding_never_changes_a_region() -> None:
    backbone = RegionBackbone(Halves(), Colours())
    together, alone = backbone.extract([image(64, 32), image(40, 40)]), backbone.extract([image(40, 40)])
    assert torch.equal(together.elements[1, :1], alone.elements[0])


def test_the_best_are_kept_and_the_whole_image_comes_first() -> None:
    images = [image(64, 32)]
    assert [region.label for region in RegionBackbone(Halves(), Colours(), most=1).regions(images)[0]] == ["right"]
    kept = RegionBackbone(Halves(), Colours(), most=2, whole=True).regions(images)[0]
    assert [region.label for region in kept] == [None, "right"]


def test_pixels_get_gradients_through_pooled_regions() -> None:
    pixels = torch.rand(1, 3, 32, 32, requires_grad=True)
    RegionBackbone(Halves(), Colours()).pool(pixels, torch.tensor([[[0.0, 0.0, 0.5, 1.0]]])).sum().backward()
    assert pixels.grad is not None
    assert bool((pixels.grad[..., :16] > 0).all())
    assert not pixels.grad[..., 16:].any()


def test_a_missing_feature_is_an_error() -> None:
    with pytest.raises(InputError, match="pass the grid backbone"):
        RegionBackbone(Halves())
    with pytest.raises(InputError, match="stretch"):
        RegionBackbone(Halves(), Colours("crop"))
    found = [[Detection(Box(0, 0, 4, 4), "a", feature=torch.ones(2)), Detection(Box(0, 0, 4, 4), "b")]]
    with pytest.raises(InputError, match="image 0 of the batch: no feature of 1 of 2 regions"):
        pack_regions(found, [(8, 8)])
    with pytest.raises(InputError, match="there is none"):
        pack_regions([[]], [(8, 8)])
    with pytest.raises(InputError, match="region 1 of image 0 is empty or outside"):
        pool_cells(torch.ones(1, 16, 2), grid_boxes(4, 4), torch.tensor([[[0.0, 0, 1, 1], [0.5, 0.5, 0.5, 1]]]))


@given(st.lists(st.integers(0, 32), min_size=4, max_size=4).filter(lambda c: c[0] != c[2] and c[1] != c[3]))
def test_pooling_is_the_mean_of_the_pixels_inside(corners: list[int]) -> None:
    x1, x2 = sorted(corners[::2])
    y1, y2 = sorted(corners[1::2])
    grid = torch.randn(1, 16, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pixels = grid.reshape(4, 4, 5).repeat_interleave(8, 0).repeat_interleave(8, 1)
    pooled = pool_cells(grid, grid_boxes(4, 4).double(), torch.tensor([[[x1, y1, x2, y2]]]).double() / 32)
    assert torch.allclose(pooled[0, 0], pixels[y1:y2, x1:x2].mean((0, 1)))


def test_a_class_token_has_no_place() -> None:
    cells = torch.cat([torch.tensor([[0.0, 0.0, 1.0, 1.0]]), grid_boxes(2, 2)])
    elements = torch.tensor([[[100.0], [1.0], [2.0], [3.0], [4.0]]])
    assert pool_cells(elements, cells, torch.tensor([[[0.0, 0.0, 0.5, 0.5]]])).item() == 1.0


def test_suppression_keeps_the_best_of_each_label() -> None:
    boxes = [[0, 0, 10, 10], [1, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]]
    assert suppress(boxes, [0.2, 0.9, 0.5, 0.1]) == [1, 3]
    assert suppress(boxes, [0.2, 0.9, 0.5, 0.1], labels=["a", "a", "b", "a"]) == [1, 2, 3]
    assert suppress(np.zeros((0, 4)), []) == []
    assert iou_matrix([[0, 0, 2, 2]], [[1, 0, 3, 2], [5, 5, 6, 6]]).tolist() == [[pytest.approx(1 / 3), 0.0]]


def test_a_store_keeps_labels_scores_and_attributes(tmp_path: Path) -> None:
    backbone, images = RegionBackbone(Halves(), Colours()), [image(64, 32), image(40, 40)]
    regions = backbone.regions(images)
    with FeatureWriter(tmp_path, backbone.describe()) as writer:
        writer.add(["a", "b"], pack_regions(regions, [each.size for each in images]), region_notes(regions))
    store = FeatureStore(tmp_path, backbone.describe())
    assert store.entry("a")["labels"] == ["right", "left"]
    assert store.entry("b")["attributes"] == [["red"]]
    assert torch.allclose(store.get(["a", "b"]).elements, backbone.extract(images).elements, atol=1e-3)
