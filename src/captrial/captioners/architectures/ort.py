"""ORT, the Object Relation Transformer (Herdade et al. 2019): boxes weigh the encoder's attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.layers import MultiHeadAttention, use_legacy_norms
from captrial.captioners.architectures.transformer import EncoderLayer, Transformer, TransformerConfig
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features

FREQUENCIES = 8
GEOMETRY = 64  # 4 comparisons x 8 frequencies x (sine, cosine)


@dataclass(frozen=True)
class OrtConfig(TransformerConfig):
    """Sizes of the paper; `geometry=False` is the plain transformer of Wan 2022 Fig. 12."""

    encoder_layers: int = 6
    decoder_layers: int = 6
    pre_norm: bool = True
    embed_norm: bool = False
    embed_dropout: float = 0.5
    scale_words: bool = True
    output_bias: bool = True
    geometry: bool = True
    legacy_plus_one: bool = False  # widths and heights of relative boxes get + 1, as in the published weights
    legacy_extra_skip: bool = False  # see `SkippingAttention`; the published RL weights alone have it
    legacy_norm: bool = False  # see `LegacyNorm`


class SkippingAttention(MultiHeadAttention):
    """Self-attention that adds its input to the heads' outputs, before the last projection."""

    def combine(self, context: Tensor, queries: Tensor) -> Tensor:
        """In self-attention the queries are also what values are made of."""
        return super().combine(queries + context, queries)


class Ort(Transformer):
    """A pre-norm Transformer whose encoder weighs attention by the geometry of boxes."""

    Config: ClassVar[type[OrtConfig]] = OrtConfig
    config: OrtConfig

    def __init__(self, config: OrtConfig) -> None:
        super().__init__(config)
        if config.geometry:
            self.geometry = nn.ModuleList(nn.Linear(GEOMETRY, config.heads) for _ in range(config.encoder_layers))
        if config.legacy_norm:
            use_legacy_norms(self)

    def make_encoder_layer(self) -> EncoderLayer:
        """An encoder layer, with the extra skip where asked for."""
        layer = super().make_encoder_layer()
        if self.config.legacy_extra_skip:
            layer.attention = SkippingAttention(self.config.width, self.config.heads, self.config.dropout)
        return layer

    def attention_bias(self, features: Features) -> list[Tensor] | None:
        """`log max(ReLU(w . Emb(lambda) + b), 1e-6)` a head and layer: a head can block a pair of boxes."""
        if not self.config.geometry:
            return None
        if features.boxes is None:
            raise InputError("ort compares boxes and these features have none; use region or grid features with boxes")
        embedded = embed_geometry(compare_boxes(features.boxes, self.config.legacy_plus_one))  # (b, k, k, 64)
        return [layer(embedded).relu().clamp(min=1e-6).log().permute(0, 3, 1, 2) for layer in self.geometry]


def compare_boxes(boxes: Tensor, legacy_plus_one: bool = False) -> Tensor:
    """Box m relative to box n: log of distances and size ratios; (b, k, 4) relative boxes -> (b, k, k, 4)."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    extra = 1.0 if legacy_plus_one else 0.0
    width = (x2 - x1 + extra).clamp(min=1e-3)
    height = (y2 - y1 + extra).clamp(min=1e-3)
    centre_x, centre_y = (x1 + x2) / 2, (y1 + y2) / 2

    def distance(centre: Tensor, size: Tensor) -> Tensor:
        return ((centre.unsqueeze(2) - centre.unsqueeze(1)).abs() / size.unsqueeze(2)).clamp(min=1e-3).log()

    def ratio(size: Tensor) -> Tensor:
        return (size.unsqueeze(2) / size.unsqueeze(1)).log()

    return torch.stack([distance(centre_x, width), distance(centre_y, height), ratio(width), ratio(height)], -1)


def embed_geometry(comparison: Tensor) -> Tensor:
    """Sines then cosines of 100 x comparison x frequency, comparison-major: (..., 4) -> (..., 64)."""
    powers = torch.arange(FREQUENCIES, device=comparison.device, dtype=comparison.dtype) / FREQUENCIES
    angles = (100 * comparison.unsqueeze(-1) * 1000.0**-powers).flatten(-2)  # (..., 32)
    return torch.cat([angles.sin(), angles.cos()], -1)
