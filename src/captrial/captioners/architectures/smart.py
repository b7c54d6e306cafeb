"""SMArT (Cornia et al. 2020): two layers each way, the encoder's attention extended by learned memory slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captrial.captioners.architectures.transformer import EncoderLayer, Transformer, TransformerConfig


@dataclass(frozen=True)
class SmartConfig(TransformerConfig):
    """Sizes of Cornia 2022."""

    encoder_layers: int = 2
    decoder_layers: int = 2
    memory_slots: int = 40


class Smart(Transformer):
    """A shallow Transformer whose visual elements can also attend to what was learned about all images."""

    Config: ClassVar[type[SmartConfig]] = SmartConfig
    config: SmartConfig

    def make_encoder_layer(self) -> EncoderLayer:
        """An encoder layer with memory slots."""
        return EncoderLayer(self.config, self.config.memory_slots)
