"""VGG-19 up to conv5_4, 14 x 14 x 512 at 224 pixels: the features of Show, Attend and Tell (Liu 2017, Xu et al.).

The weights are not ours to ship: they come from torchvision where it is installed, or from a file of the user's.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from captrial.errors import InputError
from captrial.vision.backbones.base import Backbone, grid_boxes, weights_hash
from captrial.vision.descriptions import BackboneName
from captrial.vision.preprocess import Preprocess

CROP = Preprocess(224, "crop", 256)  # Liu 2017, section 5.1
STRIDE = 16  # four poolings; the fifth comes after conv5_4
CHANNELS: tuple[tuple[int, int], ...] = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # (width, convolutions)


class VGG19(Backbone):
    """Cells of conv5_4 after its ReLU, 512 wide, one every 16 pixels.

    `weights` is a `.safetensors` file, or a `.pth` file (loaded without unpickling code), with torchvision's names;
    without it torchvision's ImageNet weights are taken. Images are cropped as in Liu 2017: shorter side 256, centre
    224.
    """

    width = 512

    def __init__(self, weights: Path | str | None = None, preprocess: Preprocess | None = None) -> None:
        super().__init__()
        self.name, self.source = "vgg19", None if weights is None else str(Path(weights).resolve())
        self.preprocess = preprocess or CROP
        self.network = VGG19Convolutions()
        _load(self.network, _torchvision_weights() if weights is None else read_weights(Path(weights)), self.source)
        self.requires_grad_(False).eval()

    def elements(self, pixels: Tensor) -> Tensor:
        """(b, 3, size, size) -> (b, rows x columns, 512)."""
        cells: Tensor = self.network(pixels)  # (b, 512, rows, columns)
        return cells.flatten(2).transpose(1, 2)

    def cells(self) -> Tensor:
        """A square grid; pixels beyond the last whole stride are pooled away."""
        side = self.preprocess.size // STRIDE
        return grid_boxes(side, side) * (side * STRIDE / self.preprocess.size)

    def describe(self) -> dict[str, Any]:
        """Weights by content; see `Backbone.describe`."""
        return {**super().describe(), "source": self.source, "weights": self._weights}

    @cached_property
    def _weights(self) -> str:
        return weights_hash(self.network)


def load_vgg(name: BackboneName) -> VGG19:
    """By name: `vgg19:FILE?size=448`."""
    return VGG19(name.source, name.preprocess(CROP))


def restore_vgg(vision: Mapping[str, Any]) -> VGG19:
    """From a description; it may come from somebody else, so only weights that cannot be a pickle are read."""
    source = vision["source"]
    if source is not None and Path(source).suffix != ".safetensors":
        raise InputError(
            f"{source}: a checkpoint names these VGG-19 weights, and only .safetensors files are read on its word; "
            "convert them, train on them, or extract features with --backbone vgg19:FILE"
        )
    return VGG19(source, Preprocess.from_description(vision["preprocess"]))


class VGG19Convolutions(nn.Module):
    """The sixteen convolutions, with torchvision's parameter names (`features.0.weight` ... `features.34.bias`)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width_before = 3
        for width, convolutions in CHANNELS:
            for _ in range(convolutions):
                layers += [nn.Conv2d(width_before, width, 3, padding=1), nn.ReLU()]
                width_before = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers[:-1])

    def forward(self, pixels: Tensor) -> Tensor:
        """(b, 3, h, w) -> (b, 512, h / 16, w / 16)."""
        cells: Tensor = self.features(pixels)
        return cells


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a `.safetensors` file or of a `.pth`/`.pt` file; nothing in either is executed."""
    if not path.is_file():
        raise InputError(
            f"{path} is not a weight file; give a .safetensors or .pth file with torchvision's VGG-19 weights"
        )
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # safetensors and torch raise almost anything on a damaged file
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} cannot be read as weights ({reason}); save it as .safetensors") from None
    if not isinstance(found, Mapping):
        raise InputError(f"{path} holds a {type(found).__name__}, not the weights of a network (a state_dict)")
    return found


def _torchvision_weights() -> Mapping[str, Tensor]:
    try:
        models = importlib.import_module("torchvision.models")  # no extra brings it: it would resolve another torch
    except ImportError:
        raise InputError(
            "VGG-19 weights do not come with captrial: name a file with torchvision's VGG-19 weights, vgg19:FILE "
            "(.safetensors or .pth), or install torchvision to download them"
        ) from None
    weights: Mapping[str, Tensor] = models.VGG19_Weights.IMAGENET1K_V1.get_state_dict(progress=False, check_hash=True)
    return weights


def _load(network: nn.Module, weights: Mapping[str, Tensor], source: str | None) -> None:
    wanted = network.state_dict()
    for name, tensor in wanted.items():
        found = weights.get(name)
        if found is None or found.shape != tensor.shape:
            what = (
                "no" if found is None else f"another shape of ({tuple(found.shape)} instead of {tuple(tensor.shape)})"
            )
            raise InputError(f"{source or 'torchvision'}: {what} {name}; VGG-19 with torchvision's names is needed")
    network.load_state_dict({name: weights[name].float() for name in wanted})
