"""Top-Down, also Up-Down (Anderson et al. 2018): an attention LSTM and a language LSTM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import AttentionLstmCaptioner, RecurrentConfig, RecurrentStep
from captrial.captioners.base import masked_mean
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class TopDownConfig(RecurrentConfig):
    """Sizes of the common PyTorch port."""

    width: int = 1000


class TopDownMemory(NamedTuple):
    """Embedded elements ready for attention, and their embedded mean."""

    elements: layers.AdditiveMemory
    mean: Tensor  # (b, 1, d)


class TopDownState(NamedTuple):
    """The two LSTMs."""

    attention: layers.LstmState
    language: layers.LstmState


class TopDown(AttentionLstmCaptioner):
    """The attention LSTM reads the word, the mean of the image and the language LSTM; its state is the query."""

    Config: ClassVar[type[TopDownConfig]] = TopDownConfig
    config: TopDownConfig

    def __init__(self, config: TopDownConfig) -> None:
        super().__init__(config)
        width = config.width
        self.attention = layers.AdditiveAttention(width, width, config.attention)
        self.speaking = layers.LstmCell(2 * width, width)
        self.head = nn.Linear(width, config.words)
        self.dropout = layers.Dropout(config.dropout)

    def encode(self, features: Features) -> TopDownMemory:
        """Embed the elements and their mean."""
        features = self.standardised(features)
        elements = self.attention.project(self.embed(features.elements), features.mask)
        return TopDownMemory(elements, self.embed_mean(masked_mean(features.elements, features.mask)).unsqueeze(1))

    def start(self, memory: TopDownMemory) -> TopDownState:
        """Zeros."""
        zeros = layers.zero_state(memory.mean, self.config.width)
        return TopDownState(zeros, zeros)

    def recurrent_step(self, tokens: Tensor, state: TopDownState, memory: TopDownMemory) -> RecurrentStep:
        """Attend, then predict."""
        word = self.words(tokens)
        inputs = [state.language.hidden, memory.mean.expand_as(word), word]
        attention_state = self.looking(torch.cat(inputs, -1), state.attention)
        context, weights = self.attention(attention_state.hidden, memory.elements)
        language = self.speaking(torch.cat([context, attention_state.hidden], -1), state.language)
        return RecurrentStep(language.hidden, TopDownState(attention_state, language), weights)
