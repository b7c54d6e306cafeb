"""Top-Down, also Up-Down (Anderson et al. 2018): one LSTM to look, one LSTM to speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.attention import AdditiveAttention, AdditiveMemory
from captrial.captioners.architectures.recurrent import (
    Embedding,
    LstmCell,
    LstmState,
    Projection,
    Read,
    RecurrentCaptioner,
    zero_state,
)
from captrial.captioners.base import CaptionerConfig, masked_mean
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class TopDownConfig(CaptionerConfig):
    """Sizes of the common PyTorch port."""

    width: int = 1000
    attention: int = 512
    dropout: float = 0.5


class TopDownMemory(NamedTuple):
    """Embedded elements ready for attention, and their embedded mean."""

    elements: AdditiveMemory
    mean: Tensor  # (b, 1, d)


class TopDownState(NamedTuple):
    """The two LSTMs."""

    looking: LstmState
    speaking: LstmState


class TopDown(RecurrentCaptioner):
    """The attention LSTM sees the word, the mean of the image and the language LSTM; its state is the query."""

    Config: ClassVar[type[TopDownConfig]] = TopDownConfig
    config: TopDownConfig

    def __init__(self, config: TopDownConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = Embedding(config.words, width, config.dropout)
        self.embed = Projection(config.features, width, config.dropout)
        self.embed_mean = Projection(config.features, width, config.dropout)
        self.looking = LstmCell(3 * width, width)
        self.attention = AdditiveAttention(width, width, config.attention)
        self.speaking = LstmCell(2 * width, width)
        self.head = nn.Linear(width, config.words)
        self.dropout = nn.Dropout(config.dropout)

    def encode(self, features: Features) -> TopDownMemory:
        """Embed the elements and their mean."""
        elements = self.attention.project(self.embed(features.elements), features.mask)
        return TopDownMemory(elements, self.embed_mean(masked_mean(features.elements, features.mask)).unsqueeze(1))

    def start(self, memory: TopDownMemory) -> TopDownState:
        """Zeros."""
        zeros = zero_state(memory.mean, self.config.width)
        return TopDownState(zeros, zeros)

    def read(self, tokens: Tensor, state: TopDownState, memory: TopDownMemory) -> Read:
        """Look, then speak."""
        word = self.words(tokens)
        inputs = [state.speaking.hidden, memory.mean.expand_as(word), word]
        looking = self.looking(torch.cat(inputs, -1), state.looking)
        context, weights = self.attention(looking.hidden, memory.elements)
        speaking = self.speaking(torch.cat([context, looking.hidden], -1), state.speaking)
        return Read(speaking.hidden, TopDownState(looking, speaking), weights)

    def score(self, output: Tensor) -> Tensor:
        """A linear layer after dropout."""
        logits: Tensor = self.head(self.dropout(output))
        return logits
