"""Att2in, the captioner of self-critical sequence training (Rennie et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import RecurrentCaptioner, RecurrentConfig, RecurrentStep
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class Att2inConfig(RecurrentConfig):
    """Sizes of the paper."""

    width: int = 512


class Att2in(RecurrentCaptioner):
    """A maxout LSTM; the attended vector enters only the cell's candidate."""

    Config: ClassVar[type[Att2inConfig]] = Att2inConfig
    config: Att2inConfig

    def __init__(self, config: Att2inConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = layers.Embedding(config.words, width, config.dropout)
        self.embed = layers.Projection(config.features, width, config.dropout)
        self.attention = layers.AdditiveAttention(width, width, config.attention)
        self.from_word = nn.Linear(width, 5 * width)
        self.from_hidden = nn.Linear(width, 5 * width)
        self.from_context = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, config.words)
        self.dropout = layers.Dropout(config.dropout)

    def encode(self, features: Features) -> layers.AdditiveMemory:
        """Embed the elements and project them for the attention."""
        features = self.standardised(features)
        return self.attention.project(self.embed(features.elements), features.mask)

    def start(self, memory: layers.AdditiveMemory) -> layers.LstmState:
        """Zeros."""
        return layers.zero_state(memory.values, self.config.width)

    def recurrent_step(self, tokens: Tensor, state: layers.LstmState, memory: layers.AdditiveMemory) -> RecurrentStep:
        """Attend with the *previous* hidden state; gates from word and state, candidate from the context too."""
        context, weights = self.attention(state.hidden, memory)
        sums = self.from_word(self.words(tokens)) + self.from_hidden(state.hidden)
        width = self.config.width
        gates, candidates = sums.split([3 * width, 2 * width], -1)
        keep_new, keep_old, show = torch.sigmoid(gates).chunk(3, -1)
        first, second = (candidates + self.from_context(context)).chunk(2, -1)
        cell = keep_old * state.cell + keep_new * torch.maximum(first, second)  # maxout, no tanh
        hidden = show * torch.tanh(cell)
        return RecurrentStep(hidden, layers.LstmState(hidden, cell), weights)
