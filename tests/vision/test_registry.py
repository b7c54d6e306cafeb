"""One name for every backbone, and back from the description of each."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from captrial.errors import InputError, MismatchError
from captrial.records import Box
from captrial.vision import registry
from captrial.vision.backbones import efficientnet
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.backbones.vgg import VGG19Convolutions
from captrial.vision.descriptions import identity
from captrial.vision.detectors.base import Detection
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.preprocess import Preprocess
from captrial.vision.registry import BACKBONES, DETECTORS, VisionEntry, load_backbone, load_detector
from vision.onnx_files import write_onnx
from vision.small_models import make_backbone, make_detector

NOTES = {"names": "['dog', 'cat']", "imgsz": "[64, 64]"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A name of every kind whose weights can be made here."""
    folder = tmp_path_factory.mktemp("named")
    torch.manual_seed(0)
    save_file(VGG19Convolutions().state_dict(), folder / "vgg19.safetensors")
    rows = np.zeros((1, 6, 9), np.float32)
    rows[0, :, 0] = [32, 32, 40, 20, 0.9, 0]
    onnx = write_onnx(folder / "yolo.onnx", rows, ("batch", 3, "height", "width"), NOTES)
    vit, detr = make_backbone("vit", folder / "vit"), make_detector("detr", folder / "detr")
    return {
        "lite": "efficientnet-lite0?size=64",
        "vgg": f"vgg19:{folder / 'vgg19.safetensors'}?size=32&mode=stretch",
        "clip": f"clip:{make_backbone('clip', folder / 'clip')}",
        "hf": f"hf:{vit}?class=no",
        "stage": f"hf:{make_backbone('resnet', folder / 'resnet')}?stage=stage3&size=128",
        "detr": f"detr:{detr}?threshold=0.99&least=2",
        "detr+vit": f"detr:{detr}?least=2+hf:{vit}",
        "regions": "region-detector?most=1&threshold=0.9",
        "regions+lite": "region-detector?most=1&threshold=0.0+efficientnet-lite0?size=64",
        "onnx+lite": f"onnx:{onnx}?threshold=0.3&most=5&whole=yes+efficientnet-lite0?size=64",
    }


EXPECTED = {  # elements of one image, and their width
    "lite": (4, 1280),
    "vgg": (4, 512),
    "clip": (17, 24),
    "hf": (16, 24),
    "stage": (64, 16),
    "detr": (2, 16),
    "detr+vit": (2, 24),
    "regions": (1, 1012),
    "regions+lite": (1, 1280),
    "onnx+lite": (2, 1280),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_there_and_back(names: dict[str, str], kind: str, tmp_path: Path) -> None:
    """By name, then from its description as JSON: the same elements; a store made with one opens with the other."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8))
    backbone = load_backbone(names[kind])
    features = backbone.extract([image])
    assert features.elements.shape[1:] == EXPECTED[kind]
    again = load_backbone(orjson.loads(orjson.dumps(backbone.describe())))
    assert torch.equal(again.extract([image]).elements, features.elements)
    with FeatureWriter(tmp_path / "store", backbone.describe()) as writer:
        writer.add(["a"], features)
    assert FeatureStore(tmp_path / "store", again.describe()).get(["a"]).elements.shape == features.elements.shape
    other = load_backbone(names["lite" if kind != "lite" else "hf"])
    with pytest.raises(MismatchError):
        FeatureStore(tmp_path / "store", other.describe())


def test_changed_weights_are_refused(names: dict[str, str], tmp_path: Path) -> None:
    described = load_backbone(names["hf"]).describe()
    torch.manual_seed(5)
    changed = Path(names["hf"].removeprefix("hf:").partition("?")[0])
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in changed.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="nowhere: no such folder"):
        load_backbone({**described, "source": "./nowhere"})
    assert load_backbone({**described, "source": "./nowhere"}, f"hf:{moved}?class=no").width == 24
    with pytest.raises(MismatchError, match="another class_token"):
        load_backbone(described, f"hf:{moved}")
    with pytest.raises(MismatchError, match="another weights"):
        load_backbone({**described, "weights": "0123456789abcdef"})


@pytest.mark.parametrize("kind", ["vgg", "hf", "detr", "onnx+lite"])
def test_local_weights_are_found_from_any_folder(
    names: dict[str, str], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is kept as a full one; where files lie is still no part of what features are."""
    folder = Path(names["vgg"].removeprefix("vgg19:").partition("?")[0]).parent
    monkeypatch.chdir(folder)
    backbone = load_backbone(names[kind].replace(f"{folder}/", ""))
    monkeypatch.chdir(tmp_path)
    assert load_backbone(backbone.describe()).fingerprint == backbone.fingerprint
    assert str(folder) not in str(identity(backbone.describe()))


@pytest.mark.parametrize("kind", ["hf", "detr"])
def test_pickles_are_asked_for_every_time(names: dict[str, str], kind: str, tmp_path: Path) -> None:
    weights = Path(names[kind].partition(":")[2].partition("?")[0])
    pickled = tmp_path / "pickled"
    shutil.copytree(weights, pickled)
    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    name = names[kind].replace(str(weights), str(pickled))
    with pytest.raises(InputError, match="cannot be loaded"):
        load_backbone(name)
    backbone = load_backbone(f"{name}&pickle=yes")
    assert backbone.fingerprint == load_backbone(names[kind]).fingerprint  # in safetensors they are the same weights
    with pytest.raises(InputError, match="cannot be loaded"):  # a description may be a stranger's
        load_backbone(backbone.describe())
    assert load_backbone(backbone.describe(), f"{name}&pickle=yes").fingerprint == backbone.fingerprint


def test_detectors_alone(names: dict[str, str]) -> None:
    onnx = load_detector(names["onnx+lite"].partition("?")[0] + "?iou=0.4&size=96")
    assert onnx.labels == ("dog", "cat")
    assert onnx.describe()["frame"] == [96, 96]
    assert load_detector(names["detr"]).width is None  # features are for captioners
    with pytest.raises(InputError, match="no detector is called 'vgg19'"):
        load_detector("vgg19")


def test_class_names_from_a_file(names: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("wolf\nlynx\n")
    onnx = names["onnx+lite"].partition("?")[0]
    assert load_detector(f"{onnx}?labels={tmp_path / 'names.txt'}").labels == ("wolf", "lynx")
    with pytest.raises(InputError, match="class names cannot be read"):
        load_detector(f"{onnx}?labels={tmp_path / 'none.txt'}")


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("resnet", "no backbone is called 'resnet'; there are: efficientnet-lite0..2, vgg19, clip, hf"),
        ("efficientnet-lite7", "no EfficientNet-Lite7"),
        ("efficientnet-litex", "no backbone is called 'efficientnet-litex'"),
        ("hf", "hf needs a model by name or folder"),
        ("onnx", "onnx needs an ONNX file"),
        ("efficientnet-lite0?sides=3", "no setting sides"),
        ("efficientnet-lite0?size=big", "size=big is not understood"),
    ],
)
def test_names_that_mean_nothing(name: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        load_backbone(name)


def test_regions_need_the_whole_image(names: dict[str, str]) -> None:
    with pytest.raises(InputError, match="whole image"):
        load_backbone(names["onnx+lite"].replace("size=64", "size=64&mode=crop"))


def test_efficientnet_is_one_file_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its description has no hash of the weights: other ones are refused where they are loaded."""
    monkeypatch.setitem(efficientnet.WEIGHTS, 0, "0123456789abcdef")
    efficientnet._read.cache_clear()  # this process may have read the right ones
    with pytest.raises(MismatchError, match="is not the file that efficientnet-lite0 stands for"):
        load_backbone("efficientnet-lite0")


class Halves(Backbone):
    """The mean colours of the left and the right half of an image."""

    width = 3

    def __init__(self) -> None:
        super().__init__()
        self.name, self.preprocess = "halves", Preprocess(32)
        self.scale = torch.nn.Parameter(torch.ones(3))

    def elements(self, pixels: torch.Tensor) -> torch.Tensor:
        left, right = pixels.chunk(2, -1)
        return torch.stack([left.mean((2, 3)), right.mean((2, 3))], 1) * self.scale

    def cells(self) -> torch.Tensor:
        return grid_boxes(1, 2)


class Whole:
    """Finds one thing in every image: all of it."""

    name, width, labels = "whole", None, ("thing",)

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        return [[Detection(Box(0, 0, *image.size), "thing", 1.0)] for image in images]

    def describe(self) -> dict[str, object]:
        return {"detector": self.name}


def test_a_new_backbone_and_a_new_detector_are_one_entry_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered, they are loaded by name and from descriptions, and named in messages."""
    halves = VisionEntry(
        "halves", "`halves`", "Halves", "two halves", "nothing", lambda name: Halves(), lambda vision: Halves()
    )
    whole = VisionEntry(
        "whole", "`whole`", "Whole", "all of it", "nothing", lambda name, features: Whole(), lambda how: Whole()
    )
    monkeypatch.setattr(registry, "BACKBONES", [*BACKBONES, halves])
    monkeypatch.setattr(registry, "DETECTORS", [*DETECTORS, whole])
    image = Image.new("RGB", (40, 20), "red")
    assert load_backbone("halves").extract([image]).elements.shape == (1, 2, 3)
    regions = load_backbone("whole+halves")
    assert regions.extract([image]).elements.shape == (1, 1, 3)
    assert load_backbone(orjson.loads(orjson.dumps(regions.describe()))).fingerprint == regions.fingerprint
    assert load_detector("whole").labels == ("thing",)
    with pytest.raises(InputError, match=r"there are: .*halves.*whole"):
        load_backbone("quarters")
