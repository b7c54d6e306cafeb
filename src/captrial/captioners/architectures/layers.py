"""Layers that several architectures share: multi-head and additive attention, the LSTM cell, embeddings, norms."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Dropout):
    """`nn.Dropout` that draws 16 random bits an element on the CPU, in place of a random float.

    Torch's own took a third of a training step there (benchmarks/speed/training_step.py). `p` is met to 1 in 65 536,
    and what is kept is scaled by the share that is, so the mean stays exact.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(...) -> (...)."""
        dropped = round(self.p * 2**16)
        if not self.training or input.is_cuda or not 0 < dropped < 2**16:
            return super().forward(input)
        bits = torch.empty((input.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: input.numel()].view(input.shape) >= dropped - 2**15
        return input * (kept.to(input.dtype) * (2**16 / (2**16 - dropped)))


class KeysValues(NamedTuple):
    """Projected keys and values, split into heads."""

    keys: Tensor  # (b, heads, k, d_h)
    values: Tensor  # (b, heads, k, d_h)


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention, optionally with learned memory slots beside the keys (M2, SMArT).

    Scores are `q . k / sqrt(d_h)` (Cornia 2022 Eq. 4 prints v: misprint). Memory slots are one (slots, d) matrix each
    for keys and values, split into heads like them, and are never masked.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.1, memory_slots: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.joined: nn.Module | None = None  # see `fuse`
        self.dropout = Dropout(dropout)
        self.memory_slots = memory_slots
        if memory_slots:
            head = width // heads
            self.memory_keys = nn.Parameter(torch.randn(memory_slots, width) / head)
            self.memory_values = nn.Parameter(torch.randn(memory_slots, width) / memory_slots)

    def project(self, elements: Tensor) -> KeysValues:
        """Keys and values of `elements` (b, k, d), memory slots appended: done once an image."""
        keys, values = self.key(elements), self.value(elements)
        if self.memory_slots:
            scale = math.sqrt(self.key.out_features // self.heads)
            batch = (len(elements), -1, -1)
            keys = torch.cat([keys, scale * self.memory_keys.expand(batch)], 1)
            values = torch.cat([values, math.sqrt(self.memory_slots) * self.memory_values.expand(batch)], 1)
        return KeysValues(self._split(keys), self._split(values))

    def fuse(self) -> None:
        """Join the three projections of a self-attention into one matrix product, for `advance` alone."""
        joined = nn.Linear(self.query.in_features, 3 * self.query.out_features)
        parts = (self.query, self.key, self.value)
        joined.weight = nn.Parameter(torch.cat([part.weight.detach() for part in parts]), requires_grad=False)
        joined.bias = nn.Parameter(torch.cat([part.bias.detach() for part in parts]), requires_grad=False)
        self.joined = joined

    def advance(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Self-attention of one new word (m, d) over itself and the words before, (m, 2, heads, t, d_h).

        Returns context (m, d) and all keys and values, (m, 2, heads, t + 1, d_h). Few and large operations: in
        decoding, a call costs as much as what it computes.
        """
        m, width = x.shape
        projected = [self.joined(x)] if self.joined is not None else [self.query(x), self.key(x), self.value(x)]
        now = torch.cat(projected, -1).view(m, 3, self.heads, 1, width // self.heads)
        words = torch.cat([past, now[:, 1:]], 3)
        context = functional.scaled_dot_product_attention(now[:, 0], words[:, 0], words[:, 1])
        return self.out(context.reshape(m, width)), words

    def forward(
        self, queries: Tensor, memory: KeysValues, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend with `queries` (b, q, d) -> context (b, q, d) and weights (b, heads, q, k).

        `mask` (b or 1, q or 1, k) is True where attention is allowed; `bias` (b, heads, q, k) is added to the scores.
        """
        split = self._split(self.query(queries))  # (b, heads, q, d_h)
        scores = split @ memory.keys.transpose(-2, -1) / math.sqrt(split.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~self._with_slots(mask).unsqueeze(1), -1e9)
        if bias is not None:
            scores = scores + bias
        weights = scores.softmax(-1)
        context = self.dropout(weights) @ memory.values  # (b, heads, q, d_h)
        return self.combine(context.transpose(1, 2).flatten(2), queries), weights

    def combine(self, context: Tensor, queries: Tensor) -> Tensor:
        """The heads' outputs, side by side (b, q, d), through the last projection; `queries` are for subclasses."""
        combined: Tensor = self.out(context)
        return combined

    def _with_slots(self, mask: Tensor) -> Tensor:
        if not self.memory_slots:
            return mask
        return torch.cat([mask, mask.new_ones(*mask.shape[:-1], self.memory_slots)], -1)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class AdditiveMemory(NamedTuple):
    """Elements with their projection into the space where scores are computed."""

    values: Tensor  # (b, k, d)
    projected: Tensor  # (b, k, a)
    mask: Tensor  # (b, k)


class AdditiveAttention(nn.Module):
    """`e_i = w . tanh(W_v v_i + W_h h)`, softmax, weighted sum (Bahdanau et al. 2015).

    Without `values` it has no `W_v` of its own and attends to what another attention has projected.
    """

    def __init__(self, values: int | None, query: int, width: int) -> None:
        super().__init__()
        self.value = nn.Linear(values, width) if values else None
        self.query = nn.Linear(query, width)
        self.score = nn.Linear(width, 1)

    def project(self, values: Tensor, mask: Tensor) -> AdditiveMemory:
        """Project `values` (b, k, d) once an image."""
        assert self.value is not None, "this attention shares another one's W_v"
        return AdditiveMemory(values, self.value(values), mask)

    def forward(self, query: Tensor, memory: AdditiveMemory) -> tuple[Tensor, Tensor]:
        """Attend with `query` (b, n, q) -> context (b, n, d) and weights (b, n, k)."""
        hidden = torch.tanh(memory.projected.unsqueeze(1) + self.query(query).unsqueeze(2))  # (b, n, k, a)
        weights = masked_softmax(self.score(hidden).squeeze(-1), memory.mask.unsqueeze(1))
        return weights @ memory.values, weights


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis where `mask` is True; exactly 0 elsewhere."""
    return scores.masked_fill(~mask, -1e9).softmax(-1) * mask


class LstmState(NamedTuple):
    """Hidden and cell state of one LSTM, each (b, n, d)."""

    hidden: Tensor
    cell: Tensor


class LstmCell(nn.Module):
    """An LSTM cell over (b, n, ...) inputs; forget-gate bias 1."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(inputs, width)
        nn.init.zeros_(self.cell.bias_hh)
        with torch.no_grad():
            self.cell.bias_ih[width : 2 * width] = 1.0

    def forward(self, inputs: Tensor, state: LstmState) -> LstmState:
        """(b, n, i) and the state before -> the state after."""
        b, n = inputs.shape[:2]
        hidden, cell = self.cell(inputs.flatten(0, 1), (state.hidden.flatten(0, 1), state.cell.flatten(0, 1)))
        return LstmState(hidden.view(b, n, -1), cell.view(b, n, -1))


def zero_state(like: Tensor, width: int) -> LstmState:
    """A state of zeros for one hypothesis of each of the images of `like` (b, ...)."""
    zeros = like.new_zeros(len(like), 1, width)
    return LstmState(zeros, zeros)


class Embedding(nn.Sequential):
    """Words: vector, ReLU, dropout."""

    def __init__(self, words: int, width: int, dropout: float) -> None:
        super().__init__(nn.Embedding(words, width), nn.ReLU(), Dropout(dropout))


class Projection(nn.Sequential):
    """Visual vectors: linear, ReLU, dropout."""

    def __init__(self, inputs: int, width: int, dropout: float) -> None:
        super().__init__(nn.Linear(inputs, width), nn.ReLU(), Dropout(dropout))


class LegacyNorm(nn.LayerNorm):
    """The layer norm of ORT's and AoANet's published code: `(x - mean) / (std + 1e-6)`, the std unbiased.

    Elsewhere it is `sqrt(variance + eps)`. The parameters are a layer norm's, so weights fit either.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(..., d) -> (..., d)."""
        centred = input - input.mean(-1, keepdim=True)
        return self.weight * centred / (input.std(-1, keepdim=True) + 1e-6) + self.bias


def use_legacy_norms(model: nn.Module) -> None:
    """Replace every layer norm of a new model by a `LegacyNorm`."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.LayerNorm:
                setattr(module, name, LegacyNorm(child.normalized_shape))
