"""VGG-19 conv5_4: its arithmetic, its weight names, and honest errors where there are no weights."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from captrial.errors import InputError
from captrial.vision.backbones.vgg import VGG19, VGG19Convolutions
from captrial.vision.preprocess import Preprocess

KNOWN_PARAMETERS = 20_024_384  # of VGG-19's convolutions (the whole network has 143 667 240)
TORCHVISION_LAYERS = [0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("vgg") / "vgg19.safetensors"
    extra = {"classifier.0.weight": torch.zeros(2, 2)}  # a whole network's file has more than we need
    save_file({**VGG19Convolutions().state_dict(), **extra}, path)
    return path


def test_has_the_convolutions_of_vgg19() -> None:
    network = VGG19Convolutions()
    assert sum(parameter.numel() for parameter in network.parameters()) == KNOWN_PARAMETERS
    names = [f"features.{layer}.{part}" for layer in TORCHVISION_LAYERS for part in ("weight", "bias")]
    assert list(network.state_dict()) == names
    assert isinstance(network.features[-1], torch.nn.ReLU)
    assert not network.features[-1].inplace  # hooks of guided backpropagation see the input


def test_makes_fourteen_by_fourteen_cells_of_the_centre(weights: Path) -> None:
    backbone = VGG19(weights)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (256, 340, 3), np.uint8))
    features = backbone.extract([image])
    assert features.elements.shape == (1, 196, 512)
    assert features.elements.min() >= 0
    assert features.boxes is not None
    torch.testing.assert_close(features.boxes[0, 15], torch.tensor([1, 1, 2, 2]) / 14)
    assert backbone.preprocess == Preprocess(224, "crop", 256)


def test_pixels_move_the_cells_they_are_in(weights: Path) -> None:
    backbone = VGG19(weights, Preprocess(64, "stretch"))
    pixels = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    elements = backbone.elements(pixels)
    (slope,) = torch.autograd.grad(elements[0, 5].sum(), pixels)  # second row, second column of four
    energy = slope.square().sum((0, 1)).reshape(4, 16, 4, 16).sum((1, 3))
    assert energy.argmax() == 5


def test_reads_torch_files_without_running_them(tmp_path: Path, weights: Path) -> None:
    network = VGG19(weights).network
    torch.save(network.state_dict(), tmp_path / "vgg19.pth")
    assert VGG19(tmp_path / "vgg19.pth").fingerprint == VGG19(weights).fingerprint  # another place, the same features
    torch.save(network, tmp_path / "code.pth")
    with pytest.raises(InputError, match=r"code.pth cannot be read as weights"):
        VGG19(tmp_path / "code.pth")


def test_takes_torchvisions_weights_where_it_is_installed(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torchvision, with the call that its documentation gives for the weights alone."""
    asked = []

    def get_state_dict(progress: bool, check_hash: bool) -> dict[str, torch.Tensor]:
        asked.append((progress, check_hash))
        return load_file(weights)

    imagenet = SimpleNamespace(get_state_dict=get_state_dict)
    fake = ModuleType("torchvision.models")
    fake.VGG19_Weights = SimpleNamespace(IMAGENET1K_V1=imagenet)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", fake)
    assert VGG19().fingerprint == VGG19(weights).fingerprint
    assert asked == [(False, True)]


def test_errors_name_what_is_wrong_with_weights(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(InputError, match=r"vgg19:FILE .* or install torchvision"):
        VGG19()
    with pytest.raises(InputError, match=r"nowhere.safetensors is not a weight file"):
        VGG19(tmp_path / "nowhere.safetensors")
    part = VGG19Convolutions().state_dict()
    del part["features.34.bias"]
    save_file(part, tmp_path / "part.safetensors")
    with pytest.raises(InputError, match=r"no features.34.bias"):
        VGG19(tmp_path / "part.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"broken.safetensors cannot be read"):
        VGG19(tmp_path / "broken.safetensors")
