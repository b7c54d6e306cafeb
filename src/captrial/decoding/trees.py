"""Re-indexing of opaque trees of tensors: searches reorder memory and state without knowing their structure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

Tree = TypeVar("Tree")


def map_tensors(tree: Tree, function: Callable[[Tensor], Tensor]) -> Tree:
    """Apply `function` to every tensor in nested tuples, lists, dicts and dataclasses; the rest stays as it is."""
    return _mapped(tree, function)  # type: ignore[no-any-return]


def _mapped(tree: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple):
        parts = [_mapped(part, function) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if isinstance(tree, list):
        return [_mapped(part, function) for part in tree]
    if isinstance(tree, dict):
        return {key: _mapped(part, function) for key, part in tree.items()}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return type(tree)(*(_mapped(getattr(tree, field.name), function) for field in dataclasses.fields(tree)))
    return tree


def first_tensor(tree: object) -> Tensor:
    """Any tensor of the tree; its first axis counts the images."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(tree, note)
    return found[0]


def pick_images(tree: Tree, rows: Tensor) -> Tree:
    """Keep the images `rows` (m,) of a tree whose tensors are (b, ...)."""
    return map_tensors(tree, lambda tensor: tensor.index_select(0, rows))


def pick_hypotheses(tree: Tree, parents: Tensor) -> Tree:
    """Reorder hypotheses: tensors (b, n, ...) become (b, m, ...), taking `parents` (b, m) of each image."""
    images, wanted = parents.shape
    rows: dict[int, Tensor] = {}  # by n: tensors of one tree share theirs

    def pick(tensor: Tensor) -> Tensor:
        n = tensor.shape[1]
        if n not in rows:
            first = torch.arange(0, n * images, n, device=parents.device).unsqueeze(1)  # (b, 1)
            rows[n] = (parents + first).reshape(-1)
        flat = tensor.reshape(images * n, *tensor.shape[2:]).index_select(0, rows[n])
        return flat.view(images, wanted, *tensor.shape[2:])

    return map_tensors(tree, pick)
