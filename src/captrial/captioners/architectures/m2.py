"""M2, the Meshed-Memory Transformer (Cornia et al. 2020; Cornia 2022 Eq. 8-9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.layers import KeysValues
from captrial.captioners.architectures.smart import Smart, SmartConfig
from captrial.captioners.architectures.transformer import DecoderLayer, TransformerMemory
from captrial.vision.features.visual_features import Features

LEGACY_POSITIONS = 55  # rows of the released position table: 54 words and padding


@dataclass(frozen=True)
class M2Config(SmartConfig):
    """Sizes of the paper, and the quirks of the published code behind flags."""

    encoder_layers: int = 3
    decoder_layers: int = 3
    divide_mesh: bool = True  # by sqrt(levels), as in the published code; False: Cornia 2022 Eq. 8 literally
    legacy_init: bool = False  # Xavier on memory slots and a frozen random position table, as released
    legacy_mask: bool = False  # padded elements are attended to, as released


class MeshedDecoderLayer(DecoderLayer):
    """Attends to every encoder level with one shared cross-attention, and mixes the levels by learned gates."""

    def __init__(self, config: M2Config) -> None:
        if config.pre_norm:
            raise ValueError("pre_norm: the mesh is defined after normalisation only (Eq. 8)")
        super().__init__(config)
        self.gates = nn.ModuleList(nn.Linear(2 * config.width, config.width) for _ in range(config.encoder_layers))
        self.divisor = math.sqrt(config.encoder_layers) if config.divide_mesh else 1.0

    def project(self, levels: list[Tensor]) -> KeysValues:
        """Keys and values of all levels, stacked: (b, levels, heads, k, d_h)."""
        projected = [self.cross_attention.project(level) for level in levels]
        return KeysValues(*(torch.stack(parts, 1) for parts in zip(*projected, strict=True)))

    def forward(
        self, x: Tensor, past: Tensor | None, causal: Tensor | None, cross: KeysValues, mask: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """As `DecoderLayer.forward`, with the mesh in the place of the one cross-attention."""
        x, words = self.read_words(x, past, causal)
        mixed, attended = torch.zeros_like(x), []
        for level, gate in enumerate(self.gates):
            context, weights = self.cross_attend(x, KeysValues(cross.keys[:, level], cross.values[:, level]), mask)
            context = self.residual_2.after(x, context)
            mixed = mixed + torch.sigmoid(gate(torch.cat([x, context], -1))) * context  # Eq. 8, gate: Eq. 9
            attended.append(weights)
        x = mixed / self.divisor
        return self.residual_3.after(x, self.feed_forward(x)), words, torch.stack(attended).mean(0)


class M2(Smart):
    """Memory in the encoder, a mesh between all encoder levels and all decoder layers."""

    Config: ClassVar[type[M2Config]] = M2Config
    config: M2Config

    def make_decoder_layer(self) -> MeshedDecoderLayer:
        """A decoder layer that attends to every encoder level."""
        return MeshedDecoderLayer(self.config)

    def initialise(self) -> None:
        """Correct by default; `legacy_init` repeats what the released code does after construction."""
        super().initialise()
        if self.config.legacy_init:
            for name, parameter in self.named_parameters():
                if "memory_" in name:  # their tensors are (1, slots, width): fans of slots x width and width
                    bound = math.sqrt(6 / (parameter.shape[0] * parameter.shape[1] + parameter.shape[1]))
                    nn.init.uniform_(parameter, -bound, bound)
            bound = math.sqrt(6 / (LEGACY_POSITIONS + self.config.width))  # Xavier's, of their table
            table = nn.init.uniform_(self.positions, -bound, bound)  # type: ignore[arg-type]
            self.register_buffer("positions", table)  # random numbers must be saved; sinusoids are computed

    def encode(self, features: Features) -> TransformerMemory:
        """As the Transformer's; `legacy_mask` attends to padding like the released code."""
        if self.config.legacy_mask:
            features = Features(features.elements, torch.ones_like(features.mask), features.boxes)
        return super().encode(features)
