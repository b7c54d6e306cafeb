"""Descriptions of backbones and features as plain data: what identifies features, wherever their weights lie."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
import torch
from torch import nn

PRECOMPUTED = "precomputed"  # how descriptions of features made by other programs begin
SOURCE = "source"  # where weights are loaded from: a path or a name on a hub


def identity(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description (see `Backbone.describe`) as plain JSON values, without the place of weights, at every depth.

    >>> identity({"backbone": "hf:vit", "source": "/models/vit", "grid": {"source": "x", "width": 3}})
    {'backbone': 'hf:vit', 'grid': {'width': 3}}
    """
    plain = orjson.loads(orjson.dumps(dict(description)))
    return {key: _plain(value) for key, value in plain.items() if key != SOURCE}


def _plain(value: Any) -> Any:
    return identity(value) if isinstance(value, dict) else value


def weights_hash(network: nn.Module) -> str:
    """A fingerprint of every parameter and buffer of a network (blake2b, 16 digits; a second for 500 MB)."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
