"""DETR-type detectors: box and score arithmetic by hand, and against the model's own output on tiny checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers.image_transforms import get_size_with_aspect_ratio

from captrial.errors import InputError
from captrial.vision.detectors.base import Detector, RegionBackbone
from captrial.vision.detectors.detr import DetrDetector, Frame, class_scores, corner_boxes
from vision.small_models import DETECTORS, make_detector


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("detectors")
    return {kind: make_detector(kind, base / kind) for kind in DETECTORS}


def image(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8))


def test_corners_by_hand() -> None:
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.4], [0.1, 0.9, 0.4, 0.4]])
    expected = torch.tensor([[80.0, 30, 120, 70], [0, 70, 60, 100]])  # the second reaches beyond two borders
    torch.testing.assert_close(corner_boxes(boxes, (200, 100)), expected)


def test_scores_by_hand() -> None:
    """With a column for "no object": softmax over all, best of the named; without: a sigmoid each."""
    logits = torch.tensor([[9.0, 1.0, 2.0, 2.0]]).log_softmax(-1)
    scores, classes = class_scores(logits, ["N/A", "dog", "cat"])
    total = np.exp([9.0, 1, 2, 2]).sum()
    assert classes.tolist() == [2]
    assert scores.tolist() == pytest.approx([np.exp(2) / total])
    scores, classes = class_scores(torch.tensor([[0.0, 1.0, -1.0]]), ["N/A", "dog", "cat"])
    assert classes.tolist() == [1]
    assert scores.tolist() == pytest.approx([1 / (1 + np.exp(-1))])


@given(width=st.integers(400, 1600), height=st.integers(400, 1600))
@example(200, 100)
@example(640, 480)
def test_sides_keep_their_proportion(width: int, height: int) -> None:
    """The sizes DETR's own processor makes."""
    frame = Frame({"size": 800, "max_size": 1333, "image_mean": [0] * 3, "image_std": [1] * 3}, "test")
    rows, columns = get_size_with_aspect_ratio((height, width), 800, 1333)
    found = frame.fit(width, height)
    # Where the shorter side fits already, theirs leaves the image as it is, a pixel or two from the exact shape.
    assert found == pytest.approx((columns, rows), abs=2)
    assert min(found) == min(rows, columns)
    fixed = Frame({"size": {"height": 640, "width": 320}, "do_normalize": False}, "test")
    assert fixed.fit(width, height) == (320, 640)


@pytest.mark.parametrize("kind", DETECTORS)
def test_regions_are_the_networks_queries(folders: dict[str, str], kind: str) -> None:
    detector = DetrDetector(folders[kind], threshold=0.0)
    assert isinstance(detector, Detector)
    wide = image(90, 60)
    (found,) = detector.detect([wide])
    with torch.no_grad():
        output = detector.network(detector.frame(wide)[None])
    sigmoid = output.logits.shape[-1] == 3
    chances = (output.logits.sigmoid() if sigmoid else output.logits.softmax(-1))[0, :, 1:3]  # dog, cat
    best = chances.max(-1)
    order = best.values.argsort(descending=True, stable=True)
    assert [region.score for region in found] == pytest.approx(best.values[order].tolist())
    assert [region.label for region in found] == [("dog", "cat")[best.indices[query]] for query in order]
    x, y, w, h = output.pred_boxes[0, order[0]].tolist()
    corners = [90 * max(x - w / 2, 0), 60 * max(y - h / 2, 0), 90 * min(x + w / 2, 1), 60 * min(y + h / 2, 1)]
    assert list(found[0].box) == pytest.approx(corners, abs=1e-3)
    assert found[0].feature is not None
    assert detector.width == found[0].feature.shape[0] == (24 if kind == "yolos" else 16)
    torch.testing.assert_close(found[0].feature, output.last_hidden_state[0, -7:][order[0]])


def test_images_do_not_see_each_other(folders: dict[str, str]) -> None:
    """Of several sizes in one batch each gives what it gives alone, in order."""
    detector = DetrDetector(folders["detr"], threshold=0.0)
    images = [image(90, 60), image(60, 90, 1), image(90, 60, 2), image(128, 40, 3)]
    together, alone = detector.detect(images), [detector.detect([each])[0] for each in images]
    for first, second in zip(together, alone, strict=True):
        assert [region.score for region in first] == pytest.approx([region.score for region in second], abs=1e-5)
        assert list(first[0].box) == pytest.approx(list(second[0].box), abs=1e-3)
    assert detector.detect([]) == []


def test_at_least_the_best_region_stays(folders: dict[str, str]) -> None:
    strict = DetrDetector(folders["detr"], threshold=0.99)
    assert [len(found) for found in strict.detect([image(90, 60)])] == [1]
    features = RegionBackbone(DetrDetector(folders["detr"], threshold=0.99, least=3)).extract([image(90, 60)])
    assert features.elements.shape == (1, 3, 16)


def test_features_can_come_from_a_grid(folders: dict[str, str]) -> None:
    from captrial.vision.backbones.efficientnet import EfficientNetLite

    detector = DetrDetector(folders["detr"], least=2, features=False)
    assert detector.width is None
    assert detector.detect([image(90, 60)])[0][0].feature is None
    assert RegionBackbone(detector, EfficientNetLite(0, 64)).extract([image(90, 60)]).elements.shape == (1, 2, 1280)


def test_random_heads_are_refused(tmp_path: Path) -> None:
    folder = Path(make_detector("detr", tmp_path))
    weights = load_file(folder / "model.safetensors")
    save_file({name: part for name, part in weights.items() if "class" not in name}, folder / "model.safetensors")
    with pytest.raises(InputError, match="lacks 2 weights that its features need"):
        DetrDetector(str(folder))
