"""Attention rollout (Abnar and Zuidema 2020): cross-attention traced back through the encoder.

What a decoder looks at are encoded elements, each of which has looked at others before. Every encoder layer hands on
half of an element itself (the residual) and half of what it attended to; the product of the layers says how much of
each encoded element comes from which element of the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from captrial.attribution.word_attention import AttentionLooker
from captrial.captioners.architectures.attention import MultiHeadAttention
from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features


@dataclass(eq=False)
class RolloutLooker(AttentionLooker):
    """A Transformer's cross-attention, carried back through its encoder's self-attention."""

    method: str = "rollout"

    def __post_init__(self) -> None:
        self_attentions(self.checkpoint.captioner)  # refuses a captioner without them before any work is done

    def attend(self, features: Features, tokens: Tensor) -> Tensor:
        """Where it looks while it reads (b, n, t) tokens, (b, n, t, k)."""
        with self_attention(self.checkpoint.captioner) as seen:
            attention = super().attend(features, tokens)
        return torch.einsum("bntk,bkj->bntj", attention, roll_out(seen, features.mask))


def self_attentions(captioner: Captioner) -> list[MultiHeadAttention]:
    """The self-attention of every encoder layer."""
    found = [getattr(layer, "attention", None) for layer in getattr(captioner, "encoder", ())]
    layers = [layer for layer in found if isinstance(layer, MultiHeadAttention)]
    if not layers or len(layers) < len(found):
        raise InputError(
            f"rollout needs an encoder of self-attention layers, as Transformer, SMArT, M2 and ORT have; "
            f"{type(captioner).__name__} has none: use attention"
        )
    return layers


@contextmanager
def self_attention(captioner: Captioner) -> Iterator[list[Tensor]]:
    """Inside `with`, the weights (b, heads, k, k + slots) of every encoder layer, as they are computed."""
    seen: list[Tensor] = []

    def keep(_: nn.Module, __: Any, result: tuple[Tensor, Tensor]) -> None:
        seen.append(result[1])

    hooks = [layer.register_forward_hook(keep) for layer in self_attentions(captioner)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def roll_out(layers: Sequence[Tensor], mask: Tensor) -> Tensor:
    """(b, heads, k, k + slots) a layer, mask (b, k) -> (b, k, k): rows say what each encoded element is made of.

    Memory slots are no part of the image: they are dropped and the rest renormalised.
    """
    k = mask.shape[1]
    identity = torch.eye(k, dtype=layers[0].dtype, device=layers[0].device)
    made = identity.expand(len(mask), k, k)
    for weights in layers:
        looked = weights.mean(1)[..., :k] * mask.unsqueeze(1)
        looked = looked / looked.sum(-1, keepdim=True).clamp(min=1e-12)
        made = (identity + looked) / 2 @ made
    return made
