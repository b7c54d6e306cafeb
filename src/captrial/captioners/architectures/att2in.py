"""Att2in, the captioner of self-critical sequence training (Rennie et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.attention import AdditiveAttention, AdditiveMemory
from captrial.captioners.architectures.recurrent import (
    Embedding,
    LstmState,
    Projection,
    Read,
    RecurrentCaptioner,
    zero_state,
)
from captrial.captioners.base import CaptionerConfig
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class Att2inConfig(CaptionerConfig):
    """Sizes of the paper."""

    width: int = 512
    attention: int = 512
    dropout: float = 0.5


class Att2in(RecurrentCaptioner):
    """A maxout LSTM; what the attention saw enters only the cell's candidate."""

    Config: ClassVar[type[Att2inConfig]] = Att2inConfig
    config: Att2inConfig

    def __init__(self, config: Att2inConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = Embedding(config.words, width, config.dropout)
        self.embed = Projection(config.features, width, config.dropout)
        self.attention = AdditiveAttention(width, width, config.attention)
        self.from_word = nn.Linear(width, 5 * width)
        self.from_hidden = nn.Linear(width, 5 * width)
        self.from_context = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, config.words)
        self.dropout = nn.Dropout(config.dropout)

    def encode(self, features: Features) -> AdditiveMemory:
        """Embed the elements and project them for the attention."""
        return self.attention.project(self.embed(features.elements), features.mask)

    def start(self, memory: AdditiveMemory) -> LstmState:
        """Zeros."""
        return zero_state(memory.values, self.config.width)

    def read(self, tokens: Tensor, state: LstmState, memory: AdditiveMemory) -> Read:
        """Attend with the *previous* hidden state; gates from word and state, candidate from the context too."""
        context, weights = self.attention(state.hidden, memory)
        sums = self.from_word(self.words(tokens)) + self.from_hidden(state.hidden)
        width = self.config.width
        gates, candidates = sums.split([3 * width, 2 * width], -1)
        keep_new, keep_old, show = torch.sigmoid(gates).chunk(3, -1)
        first, second = (candidates + self.from_context(context)).chunk(2, -1)
        cell = keep_old * state.cell + keep_new * torch.maximum(first, second)  # maxout, no tanh
        hidden = show * torch.tanh(cell)
        return Read(hidden, LstmState(hidden, cell), weights)

    def score(self, output: Tensor) -> Tensor:
        """A linear layer after dropout."""
        logits: Tensor = self.head(self.dropout(output))
        return logits
