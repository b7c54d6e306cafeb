"""Attention as the captioner reports it: soft attention, or the last layer's cross-attention averaged over heads.

A decoder-only VLM has none of them: see `captrial.attribution.methods.token_attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from captrial.attribution.attribution import Attribution, grid_of, on_image
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.methods.token_attention import attribute_attention
from captrial.attribution.subject import Subject, Targets, empty_attribution, is_empty
from captrial.captioners.architectures.layers import MultiHeadAttention
from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features


@torch.no_grad()
def attribute(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """Attention weights of every word; the mean over its tokens."""
    targets = targets.to(subject.inputs.device)
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "attention")
    if subject.image_tokens is not None:
        return attribute_attention(subject, targets, settings)
    if settings.layer is not None or settings.head is not None:
        raise InputError("a layer or head of attention can be chosen for VLMs only; see `captrial attend --heads`")
    attention = subject.forward(subject.inputs.unsqueeze(0), targets.tokens).attention
    if attention is None or subject.cells is None:
        raise InputError("this captioner reports no attention; use method='integrated_gradients'")
    weights = targets.merge(attention[0, 0])  # (w, k)
    cells = subject.cells.double().cpu().numpy()
    boxes, grid = on_image(cells, subject.window), grid_of(cells)
    return Attribution(targets.words, weights.cpu().numpy(), boxes, "attention", grid=grid, window=subject.window)


def attend(captioner: Captioner, features: Features, tokens: Tensor) -> Tensor:
    """Attention (b, n, t, k) while the captioner is fed (b, n, t) tokens."""
    attention: Tensor = captioner(features, tokens).attention
    return attention


class HeadAttention(NamedTuple):
    """The attention of the heads of one decoder layer."""

    layer: str  # "1"; "1.2" for the second encoder level that a layer of M2 attends to
    weights: Tensor  # (b, heads, n, t, k), memory slots dropped and renormalised


def attend_heads(captioner: Captioner, features: Features, tokens: Tensor) -> list[HeadAttention]:
    """Cross-attention of every layer and head while the captioner is fed (b, n, t) tokens; see `recorded_attention`."""
    with recorded_attention(captioner) as recorded:
        captioner(features, tokens)
    b, n, t = tokens.shape
    found = []
    for number, calls in enumerate(recorded, 1):
        for level, weights in enumerate(calls, 1):
            heads = weights[..., : features.mask.shape[1]].view(b, -1, n, t, features.mask.shape[1])
            name = f"{number}.{level}" if len(calls) > 1 else str(number)
            found.append(HeadAttention(name, heads / heads.sum(-1, keepdim=True).clamp(min=1e-12)))
    return found


@contextmanager
def recorded_attention(captioner: Captioner) -> Iterator[list[list[Tensor]]]:
    """Inside `with`, the cross-attention (b, heads, n t, k + slots) of every call of every decoder layer.

    `InputError` for a captioner without layers of multi-head cross-attention (those with an LSTM).
    """
    modules = [getattr(layer, "cross_attention", None) for layer in getattr(captioner, "decoder", ())]
    layers = [module for module in modules if isinstance(module, MultiHeadAttention)]
    if not layers or len(layers) < len(modules):
        raise InputError(
            f"{type(captioner).__name__} has no layers and heads of cross-attention, which Transformer, SMArT, M2 and "
            "ORT have"
        )
    recorded: list[list[Tensor]] = [[] for _ in layers]
    hooks = [
        layer.register_forward_hook(lambda _, __, result, kept=kept: kept.append(result[1]))
        for layer, kept in zip(layers, recorded, strict=True)
    ]
    try:
        yield recorded
    finally:
        for hook in hooks:
            hook.remove()
