"""The base of all backbones: normalised images to visual elements with their boxes."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Sequence
from typing import Any

import orjson
import torch
from PIL import Image
from torch import Tensor, nn

from captrial.files import content_hash
from captrial.vision.descriptions import identity
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess


class Backbone(nn.Module, abc.ABC):
    """A frozen network that turns images into visual elements.

    Subclasses set `name`, `preprocess` and `width` (of one element) and compute `elements`.
    """

    name: str
    preprocess: Preprocess
    width: int

    @abc.abstractmethod
    def elements(self, pixels: Tensor) -> Tensor:
        """Normalised images (b, 3, size, size) -> elements (b, k, width); differentiable."""

    @abc.abstractmethod
    def cells(self) -> Tensor:
        """The relative boxes of the elements, (k, 4) in [0, 1]."""

    def forward(self, pixels: Tensor) -> Features:
        """Features of a batch of normalised images."""
        return self.as_features(self.elements(pixels))

    def as_features(self, elements: Tensor) -> Features:
        """`Features` from elements (b, k, width) of this backbone: all of them valid, boxes from `cells`."""
        mask = torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
        return Features(elements, mask, self.cells().to(elements).expand(len(elements), -1, -1))

    @torch.no_grad()
    def extract(self, images: Sequence[Image.Image]) -> Features:
        """Features of some opened images, as one batch."""
        device = next(self.parameters()).device
        features: Features = self(torch.stack([self.preprocess(image) for image in images]).to(device))
        return features

    def describe(self) -> dict[str, Any]:
        """What identifies these features; kept with feature stores and checkpoints, which refuse others.

        Where weights are loaded from is under `source`, which is not compared (see `captrial.vision.descriptions`).
        """
        return {"backbone": self.name, "preprocess": self.preprocess.describe(), "width": self.width}

    @property
    def fingerprint(self) -> str:
        """A short name of backbone and preprocessing together."""
        return content_hash(orjson.dumps(identity(self.describe()), option=orjson.OPT_SORT_KEYS))


def grid_boxes(rows: int, columns: int) -> Tensor:
    """Relative boxes of a grid's cells, row by row: (rows x columns, 4)."""
    y, x = torch.meshgrid(torch.arange(rows) / rows, torch.arange(columns) / columns, indexing="ij")
    return torch.stack([x, y, x + 1 / columns, y + 1 / rows], -1).flatten(0, 1)


def weights_hash(network: nn.Module) -> str:
    """A fingerprint of every parameter and buffer of a network (blake2b, 16 digits; a second for 500 MB)."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
