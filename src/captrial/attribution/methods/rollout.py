"""Attention rollout (Abnar and Zuidema 2020): cross-attention traced back through the encoder.

A decoder attends to encoded elements, each of which attended to others before. Every encoder layer passes on half of
an element itself (the residual) and half of what it attended to; the product of the layers is the share of each image
element in each encoded element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.layers import MultiHeadAttention
from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features


def attend(captioner: Captioner, features: Features, tokens: Tensor) -> Tensor:
    """Rolled-out attention (b, n, t, k) while the captioner is fed (b, n, t) tokens."""
    with recorded_self_attention(captioner) as recorded:
        attention: Tensor = captioner(features, tokens).attention
    return torch.einsum("bntk,bkj->bntj", attention, roll_out(recorded, features.mask))


def self_attentions(captioner: Captioner) -> list[MultiHeadAttention]:
    """The self-attention of every encoder layer; an `InputError` if the captioner has none."""
    found = [getattr(layer, "attention", None) for layer in getattr(captioner, "encoder", ())]
    layers = [layer for layer in found if isinstance(layer, MultiHeadAttention)]
    if not layers or len(layers) < len(found):
        raise InputError(
            f"rollout needs an encoder of self-attention layers, as Transformer, SMArT, M2 and ORT have; "
            f"{type(captioner).__name__} has none: use attention"
        )
    return layers


@contextmanager
def recorded_self_attention(captioner: Captioner) -> Iterator[list[Tensor]]:
    """Inside `with`, the weights (b, heads, k, k + slots) of every encoder layer, as they are computed."""
    recorded: list[Tensor] = []

    def keep(_: nn.Module, __: Any, result: tuple[Tensor, Tensor]) -> None:
        recorded.append(result[1])

    hooks = [layer.register_forward_hook(keep) for layer in self_attentions(captioner)]
    try:
        yield recorded
    finally:
        for hook in hooks:
            hook.remove()


def roll_out(layers: Sequence[Tensor], mask: Tensor) -> Tensor:
    """(b, heads, k, k + slots) a layer, mask (b, k) -> (b, k, k): row i is the composition of encoded element i.

    Memory slots are no part of the image: they are dropped and the rest renormalised.
    """
    k = mask.shape[1]
    identity = torch.eye(k, dtype=layers[0].dtype, device=layers[0].device)
    made = identity.expand(len(mask), k, k)
    for weights in layers:
        attended = weights.mean(1)[..., :k] * mask.unsqueeze(1)
        attended = attended / attended.sum(-1, keepdim=True).clamp(min=1e-12)
        made = (identity + attended) / 2 @ made
    return made
