"""What the LSTM captioners share: teacher forcing is the decoding step, repeated.

A subclass computes one step (`recurrent_step`); the words of all steps are scored at once (`score`). Step-by-step
decoding and teacher forcing therefore cannot differ.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.base import Captioner, CaptionerConfig, TeacherForced
from captrial.decoding.protocol import Step, pick_hypotheses


@dataclass(frozen=True)
class RecurrentConfig(CaptionerConfig):
    """Sizes of an LSTM captioner with additive attention."""

    attention: int = 512  # width of the space where attention scores are computed
    dropout: float = 0.5


class RecurrentStep(NamedTuple):
    """The result of reading one word."""

    output: Tensor  # (b, n, d): what the next word is scored from
    state: Any
    attention: Tensor  # (b, n, k)


class RecurrentCaptioner(Captioner):
    """The base of the captioners that read words one after the other."""

    dropout: nn.Dropout
    head: nn.Linear

    @abc.abstractmethod
    def recurrent_step(self, tokens: Tensor, state: Any, memory: Any) -> RecurrentStep:
        """Read the words `tokens` (b, n)."""

    def score(self, output: Tensor) -> Tensor:
        """Logits (..., words) from outputs (..., d): a linear layer after dropout."""
        logits: Tensor = self.head(self.dropout(output))
        return logits

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read one word and score the next."""
        output, state, attention = self.recurrent_step(tokens, state, memory)
        return Step(self.score(output), state, attention)

    def teacher_force(self, tokens: Tensor, memory: Any) -> TeacherForced:
        """Read (b, n, t) words one after the other; score all next words at once."""
        outputs, attention = self.unroll(tokens, memory)
        return TeacherForced(self.score(outputs), attention)

    def unroll(self, tokens: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
        """Outputs (b, n, t, d) and attention (b, n, t, k) of every step of teacher forcing."""
        b, n, t = tokens.shape
        state = pick_hypotheses(self.start(memory), tokens.new_zeros(b, n))
        outputs, attended = [], []
        for position in range(t):
            output, state, attention = self.recurrent_step(tokens[:, :, position], state, memory)
            outputs.append(output)
            attended.append(attention)
        return torch.stack(outputs, 2), torch.stack(attended, 2)


class AttentionLstmCaptioner(RecurrentCaptioner):
    """Captioners whose first LSTM reads the word, the mean of the image and a second LSTM, and gives the query."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = layers.Embedding(config.words, width, config.dropout)
        self.embed = layers.Projection(config.features, width, config.dropout)
        self.embed_mean = layers.Projection(config.features, width, config.dropout)
        self.looking = layers.LstmCell(3 * width, width)  # the attention LSTM; names are part of checkpoints
