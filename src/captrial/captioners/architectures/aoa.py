"""AoANet, attention on attention (Huang et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import RecurrentCaptioner, RecurrentStep
from captrial.captioners.base import CaptionerConfig, masked_mean
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class AoaConfig(CaptionerConfig):
    """Sizes of the paper."""

    width: int = 1024
    heads: int = 8
    layers: int = 6
    dropout: float = 0.5  # words, elements, the context fed back and the output
    attention_dropout: float = 0.1
    aoa_dropout: float = 0.3
    legacy_norm: bool = False  # see `LegacyNorm`


class AoaMemory(NamedTuple):
    """Refined elements: keys and values of the decoder, and their mean."""

    keys: Tensor  # (b, k, d)
    values: Tensor  # (b, k, d)
    mask: Tensor  # (b, k)
    mean: Tensor  # (b, 1, d)


class AoaState(NamedTuple):
    """The LSTM and the context that is fed back."""

    lstm: layers.LstmState
    context: Tensor  # (b, n, d)


class AttentionOnAttention(nn.Module):
    """`GLU(W [attended; query] + b)`: how much of what was attended to is relevant to the query."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.gate = nn.Sequential(layers.Dropout(dropout), nn.Linear(2 * width, 2 * width), nn.GLU())

    def forward(self, attended: Tensor, query: Tensor) -> Tensor:
        """Both (..., d) -> (..., d)."""
        result: Tensor = self.gate(torch.cat([attended, query], -1))
        return result


class RefinerLayer(nn.Module):
    """Pre-norm self-attention with AoA in the place of an output projection; no feed-forward block."""

    def __init__(self, config: AoaConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.aoa = AttentionOnAttention(width, config.aoa_dropout)
        self.attention_dropout = layers.Dropout(config.attention_dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(b, k, d), mask (b, k) -> (b, k, d)."""
        inner = self.norm(x)
        attended, _ = attend(
            self.query(inner), self.key(inner), self.value(inner), mask, self.heads, self.attention_dropout
        )
        refined: Tensor = x + self.attention_dropout(self.aoa(attended, inner))
        return refined


class Aoa(RecurrentCaptioner):
    """A refiner of AoA layers over the elements, and an LSTM whose attention passes through AoA too."""

    Config: ClassVar[type[AoaConfig]] = AoaConfig
    config: AoaConfig

    def __init__(self, config: AoaConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = layers.Embedding(config.words, width, config.dropout)
        self.embed = layers.Projection(config.features, width, config.dropout)
        self.refiner = nn.ModuleList(RefinerLayer(config) for _ in range(config.layers))
        self.refined_norm = nn.LayerNorm(width)
        self.values_keys = nn.Linear(width, 2 * width)
        self.lstm = layers.LstmCell(2 * width, width)
        self.query_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.aoa = AttentionOnAttention(width, 0.0)
        self.attention_dropout = layers.Dropout(config.attention_dropout)
        self.dropout = layers.Dropout(config.dropout)
        self.head = nn.Linear(width, config.words)
        if config.legacy_norm:
            layers.use_legacy_norms(self)

    def encode(self, features: Features) -> AoaMemory:
        """Refine the elements; first half of the projection are values, second half keys."""
        features = self.standardised(features)
        x = self.embed(features.elements)
        for layer in self.refiner:
            x = layer(x, features.mask)
        x = self.refined_norm(x)
        values, keys = self.values_keys(x).chunk(2, -1)
        return AoaMemory(keys, values, features.mask, masked_mean(x, features.mask).unsqueeze(1))

    def start(self, memory: AoaMemory) -> AoaState:
        """Zeros."""
        zeros = layers.zero_state(memory.mean, self.config.width)
        return AoaState(zeros, zeros.hidden)

    def recurrent_step(self, tokens: Tensor, state: AoaState, memory: AoaMemory) -> RecurrentStep:
        """The LSTM reads the word and the mean plus the context before; AoA decides what of the attention counts."""
        image = memory.mean + self.dropout(state.context)
        lstm = self.lstm(torch.cat([self.words(tokens), image], -1), state.lstm)
        attended, weights = attend(
            self.query(self.query_norm(lstm.hidden)),
            memory.keys,
            memory.values,
            memory.mask,
            self.config.heads,
            self.attention_dropout,
        )
        context = self.aoa(attended, lstm.hidden)
        return RecurrentStep(context, AoaState(lstm, context), weights.mean(1))


def attend(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, heads: int, dropout: nn.Dropout
) -> tuple[Tensor, Tensor]:
    """Multi-head attention without projections: (b, q, d), (b, k, d) -> (b, q, d), weights (b, heads, q, k)."""
    q, k, v = (part.view(*part.shape[:2], heads, -1).transpose(1, 2) for part in (query, keys, values))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~mask[:, None, None, :], -1e9).softmax(-1)
    return (dropout(weights) @ v).transpose(1, 2).flatten(2), weights
