"""Show, Attend and Tell with soft attention (Xu et al. 2015), the captioner of Liu 2017."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import RecurrentCaptioner, RecurrentConfig, RecurrentStep
from captrial.captioners.base import masked_mean
from captrial.decoding.protocol import BOS
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class ShowAttendTellConfig(RecurrentConfig):
    """Sizes of the COCO model of Liu 2017 (Flickr30k: `width=1300`)."""

    features: int = 512
    width: int = 1800
    embedding: int = 512


class ShowAttendTellMemory(NamedTuple):
    """Elements, their projection for the attention, and the first state."""

    elements: Tensor  # (b, k, d_v)
    projected: Tensor  # (b, k, a)
    mask: Tensor  # (b, k)
    start: layers.LstmState  # (b, 1, d)


class ShowAttendTell(RecurrentCaptioner):
    """An LSTM with soft attention to the image before every word."""

    Config: ClassVar[type[ShowAttendTellConfig]] = ShowAttendTellConfig
    config: ShowAttendTellConfig

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__(config)
        size, width = config.features, config.width
        self.words = nn.Embedding(config.words, config.embedding)
        self.init = nn.Sequential(nn.Linear(size, width), nn.ReLU(), layers.Dropout(config.dropout))
        self.init_hidden = nn.Linear(width, width)
        self.init_cell = nn.Linear(width, width)
        self.element = nn.Sequential(nn.Linear(size, config.attention), nn.Linear(config.attention, config.attention))
        self.query = nn.Linear(width, config.attention)
        self.attention = nn.Linear(config.attention, 1)
        self.selector = nn.Linear(width, 1)
        self.lstm = layers.LstmCell(config.embedding + size, width)
        self.out_hidden = nn.Linear(width, config.embedding)
        self.out_context = nn.Linear(size, config.embedding)
        self.head = nn.Linear(config.embedding, config.words)
        self.dropout = layers.Dropout(config.dropout)

    def encode(self, features: Features) -> ShowAttendTellMemory:
        """Project the elements; the first state comes from their mean."""
        features = self.standardised(features)
        mean = self.init(masked_mean(features.elements, features.mask).unsqueeze(1))
        start = layers.LstmState(torch.tanh(self.init_hidden(mean)), torch.tanh(self.init_cell(mean)))
        projected = torch.tanh(self.element(features.elements))
        return ShowAttendTellMemory(features.elements, projected, features.mask, start)

    def start(self, memory: ShowAttendTellMemory) -> layers.LstmState:
        """The state initialised from the image."""
        return memory.start

    def recurrent_step(self, tokens: Tensor, state: layers.LstmState, memory: ShowAttendTellMemory) -> RecurrentStep:
        """Attend with the state before, gate the attended vector, read the word."""
        hidden = torch.tanh(memory.projected.unsqueeze(1) + self.query(state.hidden).unsqueeze(2))  # (b, n, k, a)
        weights = layers.masked_softmax(self.attention(hidden).squeeze(-1), memory.mask.unsqueeze(1))
        context = torch.sigmoid(self.selector(state.hidden)) * (weights @ memory.elements)
        word = self.words(tokens) * (tokens != BOS).unsqueeze(-1)  # the first input is all zeros
        state = self.lstm(torch.cat([word, context], -1), state)
        output = self.out_hidden(self.dropout(state.hidden)) + word + self.out_context(context)
        return RecurrentStep(output, state, weights)

    def score(self, output: Tensor) -> Tensor:
        """The deep output layer."""
        logits: Tensor = self.head(self.dropout(torch.tanh(output)))
        return logits
