"""The fully attentive captioner of Cornia 2022 (Eq. 3-7): an encoder over visual elements, a causal decoder over words.

The preset `transformer` is Cornia 2022's own: 3 + 3 layers, layer norm after each residual (Eq. 6);
`transformer-pre-norm` is the 6 + 6 layer one that most public code trains. SMArT, M2 and ORT build on this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.layers import Dropout, KeysValues, MultiHeadAttention
from captrial.captioners.base import Captioner, CaptionerConfig, TeacherForced
from captrial.decoding.protocol import Step
from captrial.vision.features.visual_features import Features

MAX_WORDS = 128  # rows of the position table


@dataclass(frozen=True)
class TransformerConfig(CaptionerConfig):
    """Sizes of Cornia 2022."""

    width: int = 512
    heads: int = 8
    hidden: int = 2048
    encoder_layers: int = 3
    decoder_layers: int = 3
    dropout: float = 0.1
    pre_norm: bool = False  # normalise before each block and once at the end, instead of after each residual
    embed_norm: bool = True  # layer norm on the embedded visual elements
    embed_dropout: float = 0.1
    scale_words: bool = False  # word vectors times sqrt(width), and dropout on them
    output_bias: bool = False
    first_position: int = 1  # of the first word in the table of sinusoids; 0 in Luo's and ORT's published code


class TransformerMemory(NamedTuple):
    """Encoded images: keys and values for the cross-attention of every decoder layer."""

    cross: tuple[KeysValues, ...]
    mask: Tensor  # (b, k)


class TransformerState(NamedTuple):
    """Keys and values of the words so far, a decoder layer each: (b, n, 2, heads, t, d_h)."""

    past: tuple[Tensor, ...]
    position: Tensor  # (b, n): how many words were read


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU (Cornia 2022 Eq. 5)."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(nn.Linear(width, hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, width))


class Residual(nn.Module):
    """`LN(x + Drop(f(x)))`, or `x + Drop(f(LN(x)))` where `pre_norm`."""

    def __init__(self, width: int, dropout: float, pre_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.pre_norm = pre_norm

    def before(self, x: Tensor) -> Tensor:
        """What the block reads."""
        return self.norm(x) if self.pre_norm else x

    def after(self, x: Tensor, block: Tensor) -> Tensor:
        """The residual sum of `x` and the block's output."""
        x = x + self.dropout(block)
        return x if self.pre_norm else self.norm(x)


class EncoderLayer(nn.Module):
    """Self-attention over the visual elements, then a feed-forward block (Cornia 2022 Eq. 6)."""

    def __init__(self, config: TransformerConfig, memory_slots: int = 0) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.width, config.heads, config.dropout, memory_slots)
        self.feed_forward = FeedForward(config.width, config.hidden, config.dropout)
        self.residual_1 = Residual(config.width, config.dropout, config.pre_norm)
        self.residual_2 = Residual(config.width, config.dropout, config.pre_norm)

    def forward(self, x: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
        """(b, k, d), mask (b, k), optional bias (b, heads, k, k) -> (b, k, d)."""
        inner = self.residual_1.before(x)
        context, _ = self.attention(inner, self.attention.project(inner), mask.unsqueeze(1), bias)
        x = self.residual_1.after(x, context)
        return self.residual_2.after(x, self.feed_forward(self.residual_2.before(x)))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the image, feed-forward (Cornia 2022 Eq. 7)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.width, config.heads, config.dropout)
        self.cross_attention = MultiHeadAttention(config.width, config.heads, config.dropout)
        self.feed_forward = FeedForward(config.width, config.hidden, config.dropout)
        self.residual_1 = Residual(config.width, config.dropout, config.pre_norm)
        self.residual_2 = Residual(config.width, config.dropout, config.pre_norm)
        self.residual_3 = Residual(config.width, config.dropout, config.pre_norm)

    def project(self, levels: list[Tensor]) -> KeysValues:
        """Cross-attention keys and values, from the last encoder level."""
        return self.cross_attention.project(levels[-1])

    def forward(
        self, x: Tensor, past: Tensor | None, causal: Tensor | None, cross: KeysValues, mask: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Words (b, n, t, d) -> words (b, n, t, d), with a past the new one, attention (b, heads, n, t, k)."""
        x, words = self.read_words(x, past, causal)
        context, weights = self.cross_attend(self.residual_2.before(x), cross, mask)
        x = self.residual_2.after(x, context)
        return self.residual_3.after(x, self.feed_forward(self.residual_3.before(x))), words, weights

    def read_words(self, x: Tensor, past: Tensor | None, causal: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Self-attention of each caption over its own words: all at once, or one more after its past."""
        b, n, t, _ = x.shape
        inner = self.residual_1.before(x)
        if past is None:
            inner = inner.flatten(0, 1)  # (b n, t, d)
            context, _ = self.self_attention(inner, self.self_attention.project(inner), causal)
            return self.residual_1.after(x, context.view(b, n, t, -1)), None
        context, words = self.self_attention.advance(inner.flatten(0, 2), past.flatten(0, 1))
        return self.residual_1.after(x, context.view(b, n, 1, -1)), words.view(b, n, *words.shape[1:])

    def cross_attend(self, x: Tensor, cross: KeysValues, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention; the captions of an image are just more queries, so its keys are never copied."""
        b, n, t, _ = x.shape
        context, weights = self.cross_attention(x.flatten(1, 2), cross, mask.unsqueeze(1))
        return context.view(b, n, t, -1), weights.view(b, -1, n, t, weights.shape[-1])


class Transformer(Captioner):
    """Cornia 2022's Transformer; subclasses change the layers."""

    Config: ClassVar[type[TransformerConfig]] = TransformerConfig
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.embed = nn.Linear(config.features, config.width)
        self.embed_norm = nn.LayerNorm(config.width) if config.embed_norm else nn.Identity()
        self.embed_dropout = Dropout(config.embed_dropout)
        self.encoder = nn.ModuleList(self.make_encoder_layer() for _ in range(config.encoder_layers))
        self.words = nn.Embedding(config.words, config.width)
        self.word_dropout = Dropout(config.dropout if config.scale_words else 0.0)
        self.register_buffer("positions", sinusoids(MAX_WORDS, config.width, config.first_position), persistent=False)
        self.decoder = nn.ModuleList(self.make_decoder_layer() for _ in range(config.decoder_layers))
        self.encoder_norm = nn.LayerNorm(config.width) if config.pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.width) if config.pre_norm else nn.Identity()
        self.head = nn.Linear(config.width, config.words, bias=config.output_bias)
        self.initialise()

    def make_encoder_layer(self) -> EncoderLayer:
        """One encoder layer."""
        return EncoderLayer(self.config)

    def make_decoder_layer(self) -> DecoderLayer:
        """One decoder layer."""
        return DecoderLayer(self.config)

    def initialise(self) -> None:
        """Xavier-uniform matrices; memory slots and layer norms keep their own initialisation."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1 and "memory_" not in name:
                nn.init.xavier_uniform_(parameter)

    def encode_levels(self, features: Features) -> list[Tensor]:
        """The output of every encoder layer, each (b, k, d)."""
        features = self.standardised(features)
        x = self.embed_norm(self.embed_dropout(self.embed(features.elements).relu()))
        bias = self.attention_bias(features)
        levels = []
        for index, layer in enumerate(self.encoder):
            x = layer(x, features.mask, None if bias is None else bias[index])
            levels.append(x)
        levels[-1] = self.encoder_norm(levels[-1])
        return levels

    def attention_bias(self, features: Features) -> list[Tensor] | None:
        """A bias on the encoder's attention scores a layer, (b, heads, k, k); ORT's geometry is one."""
        return None

    def encode(self, features: Features) -> TransformerMemory:
        """Run the encoder and project the keys and values of every decoder layer."""
        levels = self.encode_levels(features)
        return TransformerMemory(tuple(layer.project(levels) for layer in self.decoder), features.mask)  # type: ignore[operator]

    def start(self, memory: TransformerMemory) -> TransformerState:
        """No words read yet."""
        b, head = len(memory.mask), self.config.width // self.config.heads
        empty = memory.cross[0].keys.new_zeros((b, 1, 2, self.config.heads, 0, head))
        return TransformerState(tuple(empty for _ in self.decoder), memory.mask.new_zeros((b, 1), dtype=torch.long))

    def step(self, tokens: Tensor, state: TransformerState, memory: TransformerMemory) -> Step:
        """One word more for every hypothesis, with cached keys and values."""
        x = self.embed_words(tokens, state.position).unsqueeze(2)  # (b, n, 1, d)
        past = []
        for layer, old, cross in zip(self.decoder, state.past, memory.cross, strict=True):
            x, words, weights = layer(x, old, None, cross, memory.mask)
            past.append(words)
        logits = self.head(self.decoder_norm(x)).squeeze(2)
        attention = self.attention_map(weights, memory.mask).squeeze(2)
        return Step(logits, TransformerState(tuple(past), state.position + 1), attention)

    def teacher_force(self, tokens: Tensor, memory: TransformerMemory) -> TeacherForced:
        """All positions at once under a causal mask."""
        t = tokens.shape[-1]
        x = self.embed_words(tokens, torch.arange(t, device=tokens.device))
        causal = torch.ones(1, t, t, dtype=torch.bool, device=tokens.device).tril()
        for layer, cross in zip(self.decoder, memory.cross, strict=True):
            x, _, weights = layer(x, None, causal, cross, memory.mask)
        return TeacherForced(self.head(self.decoder_norm(x)), self.attention_map(weights, memory.mask))

    def embed_words(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Word vectors plus sinusoids of their positions."""
        words = self.words(tokens)
        if self.config.scale_words:
            words = words * math.sqrt(self.config.width)
        positions: Tensor = self.positions  # type: ignore[assignment]
        return self.word_dropout(words + positions[position])  # type: ignore[no-any-return]

    def attention_map(self, weights: Tensor, mask: Tensor) -> Tensor:
        """The last layer's cross-attention: mean over heads, memory slots dropped, renormalised -> (b, n, t, k)."""
        attended = weights.mean(1)[..., : mask.shape[1]]
        return attended / attended.sum(-1, keepdim=True).clamp(min=1e-12)


def sinusoids(rows: int, width: int, first: int = 1) -> Tensor:
    """The position table of "Attention is all you need" from position `first` on: (rows, width)."""
    position = torch.arange(first, first + rows, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(rows, width)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table
