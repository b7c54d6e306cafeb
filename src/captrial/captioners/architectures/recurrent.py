"""What the LSTM captioners share: teacher forcing is the same step, taken over and over.

A subclass says how one word is read (`read`); the words are scored by `head` for all steps at once. Step-by-step
decoding and teacher forcing therefore cannot differ.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.base import Captioner, TeacherForced
from captrial.decoding.protocol import Step
from captrial.decoding.trees import pick_hypotheses


class Read(NamedTuple):
    """What reading one word gives."""

    output: Tensor  # (b, n, d): what the head scores words from
    state: Any
    attention: Tensor  # (b, n, k)


class LstmState(NamedTuple):
    """Hidden and cell state of one LSTM, each (b, n, d)."""

    hidden: Tensor
    cell: Tensor


class RecurrentCaptioner(Captioner):
    """Base of the captioners that read words one after the other."""

    @abc.abstractmethod
    def read(self, tokens: Tensor, state: Any, memory: Any) -> Read:
        """Read the words `tokens` (b, n)."""

    @abc.abstractmethod
    def score(self, output: Tensor) -> Tensor:
        """Logits (..., words) from outputs (..., d)."""

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read one word and score the next."""
        output, state, attention = self.read(tokens, state, memory)
        return Step(self.score(output), state, attention)

    def teacher_force(self, tokens: Tensor, memory: Any) -> TeacherForced:
        """Read (b, n, t) words one after the other; score all next words at once."""
        outputs, attention = self.read_all(tokens, memory)
        return TeacherForced(self.score(outputs), attention)

    def read_all(self, tokens: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
        """Outputs (b, n, t, d) and attention (b, n, t, k) of teacher forcing."""
        b, n, t = tokens.shape
        state = pick_hypotheses(self.start(memory), tokens.new_zeros(b, n))
        outputs, looked = [], []
        for position in range(t):
            output, state, attention = self.read(tokens[:, :, position], state, memory)
            outputs.append(output)
            looked.append(attention)
        return torch.stack(outputs, 2), torch.stack(looked, 2)


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
        super().__init__(nn.Embedding(words, width), nn.ReLU(), nn.Dropout(dropout))


class Projection(nn.Sequential):
    """Visual vectors: linear, ReLU, dropout."""

    def __init__(self, inputs: int, width: int, dropout: float) -> None:
        super().__init__(nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout))
