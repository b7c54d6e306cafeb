"""X-LAN, the X-Linear attention network (Pan et al. 2020): second-order interactions of query and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import RecurrentCaptioner, RecurrentStep
from captrial.captioners.base import CaptionerConfig, masked_mean
from captrial.vision.features.visual_features import Features

ALPHA = 1.3  # of the CELU activations


@dataclass(frozen=True)
class XLanConfig(CaptionerConfig):
    """Sizes of the paper."""

    width: int = 1024
    heads: int = 8
    blocks: int = 4
    squeeze: int = 64  # width of the bilinear vectors that attention is computed from
    dropout: float = 0.5
    block_dropout: float = 0.1
    element_dropout: float = 0.3


class Keyed(NamedTuple):
    """Elements projected for an X-Linear block: keys and values (b, heads, k, d_h)."""

    keys: Tensor
    values: Tensor
    mask: Tensor  # (b, k)


class XLanMemory(NamedTuple):
    """The decoder's block memory and the global vector of the image."""

    elements: Keyed
    image: Tensor  # (b, 1, d)


class XLanState(NamedTuple):
    """The LSTM and the context that is fed back."""

    lstm: layers.LstmState
    context: Tensor  # (b, n, d)


class LowRank(nn.Module):
    """Linear, CELU, GroupNorm with one group a head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.activation = nn.CELU(ALPHA)
        self.norm = nn.GroupNorm(heads, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """(b, k, d) -> (b, heads, k, d_h)."""
        b, k, d = x.shape
        flat: Tensor = self.norm(self.activation(self.linear(x)).view(b * k, d))  # statistics a row, not over elements
        return flat.view(b, k, self.heads, -1).transpose(1, 2)


class XLinear(nn.Module):
    """Spatial and channel-wise attention, both from the product of query and keys."""

    def __init__(self, config: XLanConfig) -> None:
        super().__init__()
        width, heads, head = config.width, config.heads, config.width // config.heads
        self.query, self.key, self.query_value, self.value = (LowRank(width, heads) for _ in range(4))
        self.squeeze = nn.Sequential(nn.Linear(head, config.squeeze), nn.ReLU(), layers.Dropout(config.block_dropout))
        self.spatial = nn.Linear(config.squeeze, 1)
        self.channel = nn.Linear(config.squeeze, head)
        self.dropout = layers.Dropout(config.dropout)

    def project(self, elements: Tensor, mask: Tensor) -> Keyed:
        """Project the elements (b, k, d), once an image."""
        return Keyed(self.key(elements), self.value(elements), mask)

    def forward(self, query: Tensor, memory: Keyed) -> tuple[Tensor, Tensor]:
        """`query` (b, n, d) -> (b, n, d) and spatial weights (b, n, k), the mean over heads."""
        product = self.query(query).unsqueeze(3) * memory.keys.unsqueeze(2)  # (b, heads, n, k, d_h)
        squeezed = self.squeeze(product)  # (b, heads, n, k, s)
        mask = memory.mask[:, None, None, :]
        weights = layers.masked_softmax(self.spatial(squeezed).squeeze(-1), mask)  # (b, heads, n, k)
        valid = mask.unsqueeze(-1).to(squeezed.dtype)
        pooled = (squeezed * valid).sum(3) / valid.sum(3).clamp(min=1)
        channels = torch.sigmoid(self.channel(pooled))  # (b, heads, n, d_h)
        mixed = channels * self.query_value(query) * (weights @ memory.values)
        return self.dropout(mixed.transpose(1, 2).flatten(2)), weights.mean(1)


class EncoderBlock(nn.Module):
    """X-Linear attention with the global vector, then an update of the elements."""

    def __init__(self, config: XLanConfig) -> None:
        super().__init__()
        self.look = XLinear(config)
        self.mix = nn.Sequential(
            nn.Linear(2 * config.width, config.width), nn.ReLU(), layers.Dropout(config.element_dropout)
        )
        self.norm = nn.LayerNorm(config.width)

    def forward(self, image: Tensor, elements: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Global vector (b, 1, d) and elements (b, k, d) -> the same, after this block."""
        image, _ = self.look(image, self.look.project(elements, mask))
        mixed = self.mix(torch.cat([image.expand_as(elements), elements], -1))
        return image, self.norm(elements + mixed)


class XLan(RecurrentCaptioner):
    """Four X-Linear blocks encode the image; an LSTM with one more decodes it."""

    Config: ClassVar[type[XLanConfig]] = XLanConfig
    config: XLanConfig

    def __init__(self, config: XLanConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = nn.Sequential(nn.Embedding(config.words, width), nn.CELU(ALPHA), layers.Dropout(config.dropout))
        self.embed = nn.Sequential(nn.Linear(config.features, width), nn.CELU(ALPHA), layers.Dropout(config.dropout))
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.blocks))
        self.join = nn.Linear((config.blocks + 1) * width, width)
        self.join_norm = nn.LayerNorm(width)
        self.lstm = layers.LstmCell(2 * width, width)
        self.look = XLinear(config)  # its name is part of checkpoints
        self.mix = nn.Linear(2 * width, width)
        self.mix_norm = nn.LayerNorm(width)
        self.context = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.GLU())
        self.dropout = layers.Dropout(config.dropout)
        self.head = nn.Linear(width, config.words)

    def encode(self, features: Features) -> XLanMemory:
        """The global vector starts as the mean of the embedded elements and is refined block by block."""
        features = self.standardised(features)
        elements, mask = self.embed(features.elements), features.mask
        image = masked_mean(elements, mask).unsqueeze(1)
        images = [image]
        for block in self.blocks:
            image, elements = block(image, elements, mask)
            images.append(image)
        joined = self.join_norm(self.join(torch.cat(images, -1)))
        return XLanMemory(self.look.project(elements, mask), joined)

    def start(self, memory: XLanMemory) -> XLanState:
        """Zeros."""
        zeros = layers.zero_state(memory.image, self.config.width)
        return XLanState(zeros, zeros.hidden)

    def recurrent_step(self, tokens: Tensor, state: XLanState, memory: XLanMemory) -> RecurrentStep:
        """The LSTM reads the word and the image plus the context before, then attends."""
        image = memory.image + self.dropout(state.context)
        lstm = self.lstm(torch.cat([self.words(tokens), image], -1), state.lstm)
        context, weights = self.look(lstm.hidden, memory.elements)
        attended = self.mix_norm(self.mix(torch.cat([lstm.hidden, context], -1)))
        context = self.context(torch.cat([attended, lstm.hidden], -1))
        return RecurrentStep(context, XLanState(lstm, context), weights)
