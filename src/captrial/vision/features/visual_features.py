"""The visual input of captioners: elements of a batch of images, with their boxes, relations and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Features:
    """Visual elements of `b` images, padded to `k`: grid cells, ViT tokens or regions.

    Padded elements are False in `mask` and must never change a result (a contract test holds this).
    """

    elements: Tensor  # (b, k, d_v) float
    mask: Tensor  # (b, k) bool, True where there is an element
    boxes: Tensor | None = None  # (b, k, 4) x1 y1 x2 y2 relative to the image, in [0, 1]
    relations: Tensor | None = None  # (b, r, 3) subject element, object element, word id; -1 where padded
    attributes: Tensor | None = None  # (b, k, a) word ids of each element's attributes; -1 where padded

    def __len__(self) -> int:
        return len(self.elements)

    def to(self, device: torch.device | str) -> Features:
        """The same features on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def select(self, index: Tensor) -> Features:
        """The images of `index`, in that order."""
        return self._map(lambda tensor: tensor[index])

    def with_elements(self, elements: Tensor) -> Features:
        """The same features with other element vectors (explanations differentiate through these)."""
        return Features(elements, self.mask, self.boxes, self.relations, self.attributes)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Features:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return Features(**{name: function(part) for name, part in parts.items() if part is not None})


class FeatureSource(Protocol):
    """Gives features of images by id: a `FeatureStore`, precomputed features, or images run through a backbone."""

    def get(self, image_ids: Sequence[str]) -> Features:
        """Features of some images, as one batch."""
        ...


def stack_features(images: Sequence[Features]) -> Features:
    """Join the features of several (batches of) images into one batch, padded to the longest.

    A part (boxes, relations, attributes) is kept only where every image has it.
    """
    return Features(
        _stack([image.elements for image in images], 0.0),
        _stack([image.mask for image in images], False),
        _stack_optional([image.boxes for image in images], 0.0),
        _stack_optional([image.relations for image in images], -1),
        _stack_optional([image.attributes for image in images], -1),
    )


def _stack_optional(parts: Sequence[Tensor | None], padding: float) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return _stack(present, padding) if len(present) == len(parts) else None


def _stack(parts: Sequence[Tensor], padding: float) -> Tensor:
    inner = [max(part.shape[axis] for part in parts) for axis in range(1, parts[0].ndim)]
    joined = parts[0].new_full((sum(len(part) for part in parts), *inner), padding)
    start = 0
    for part in parts:
        joined[(slice(start, start + len(part)), *(slice(size) for size in part.shape[1:]))] = part
        start += len(part)
    return joined
