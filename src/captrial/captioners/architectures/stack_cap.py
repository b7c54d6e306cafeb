"""Stack-Cap (Gu et al. 2018): a coarse caption refined by one or more fine stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import AttentionLstmCaptioner, RecurrentConfig, RecurrentStep
from captrial.captioners.base import TeacherForced, masked_mean
from captrial.decoding.protocol import Step
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class StackCapConfig(RecurrentConfig):
    """Sizes of the paper: one coarse and two fine stages."""

    width: int = 512
    stages: int = 3  # the coarse one included
    prior_attention: bool = True  # a stage's element projections are weighted by the attention of the stage before
    context_in_query: bool = False  # a stage's query is the state of the stage before plus its attended vector


class StackCapMemory(NamedTuple):
    """Embedded elements ready for each stage's attention, and their embedded mean."""

    stages: tuple[layers.AdditiveMemory, ...]
    mean: Tensor  # (b, 1, d)


class StackCapState(NamedTuple):
    """The attention LSTM and one LSTM a stage."""

    attention: layers.LstmState
    language: tuple[layers.LstmState, ...]


class PriorAttention(layers.AdditiveAttention):
    """Additive attention whose projected elements are first weighted by a prior attention."""

    def refine(self, query: Tensor, memory: layers.AdditiveMemory, prior: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward`, with `prior` (b, n, k) multiplying the element projections."""
        weighted = memory.projected.unsqueeze(1) * prior.unsqueeze(-1)
        hidden = torch.tanh(weighted + self.query(query).unsqueeze(2))
        weights = layers.masked_softmax(self.score(hidden).squeeze(-1), memory.mask.unsqueeze(1))
        return weights @ memory.values, weights


class StackCap(AttentionLstmCaptioner):
    """Every stage attends again, guided by the attention of the stage before, and has its own vocabulary head.

    `read` gives the outputs of all stages side by side, (b, n, stages x d); decoding uses the last stage.
    """

    Config: ClassVar[type[StackCapConfig]] = StackCapConfig
    config: StackCapConfig

    def __init__(self, config: StackCapConfig) -> None:
        super().__init__(config)
        width = config.width
        self.attention = nn.ModuleList(PriorAttention(width, width, config.attention) for _ in range(config.stages))
        self.speaking = nn.ModuleList(layers.LstmCell(2 * width, width) for _ in range(config.stages))
        self.heads = nn.ModuleList(nn.Linear(width, config.words) for _ in range(config.stages))
        self.dropout = layers.Dropout(config.dropout)

    def encode(self, features: Features) -> StackCapMemory:
        """Embed the elements and their mean; project them for every stage."""
        features = self.standardised(features)
        elements = self.embed(features.elements)
        stages = tuple(attention.project(elements, features.mask) for attention in self.attention)  # type: ignore[operator]
        return StackCapMemory(stages, self.embed_mean(masked_mean(features.elements, features.mask)).unsqueeze(1))

    def start(self, memory: StackCapMemory) -> StackCapState:
        """Zeros."""
        zeros = layers.zero_state(memory.mean, self.config.width)
        return StackCapState(zeros, (zeros,) * self.config.stages)

    def recurrent_step(self, tokens: Tensor, state: StackCapState, memory: StackCapMemory) -> RecurrentStep:
        """Read the word once, then refine stage by stage; the last stage's state feeds back."""
        word = self.words(tokens)
        inputs = [state.language[-1].hidden, memory.mean.expand_as(word), word]
        attention_state = self.looking(torch.cat(inputs, -1), state.attention)
        hidden, weights, states = attention_state.hidden, None, []
        query = hidden
        for attention, language, before, elements in zip(
            self.attention, self.speaking, state.language, memory.stages, strict=True
        ):
            if weights is None or not self.config.prior_attention:
                context, weights = attention(query, elements)
            else:
                context, weights = attention.refine(query, elements, weights)  # type: ignore[operator]
            after = language(torch.cat([context, hidden], -1), before)
            states.append(after)
            hidden = after.hidden
            query = hidden + context if self.config.context_in_query else hidden
        assert weights is not None
        outputs = torch.cat([after.hidden for after in states], -1)
        return RecurrentStep(outputs, StackCapState(attention_state, tuple(states)), weights)

    def score(self, output: Tensor) -> Tensor:
        """Logits of the last stage."""
        return self.score_stage(output, self.config.stages - 1)

    def score_stage(self, output: Tensor, stage: int) -> Tensor:
        """Logits of one stage from the outputs of all, (..., stages x d)."""
        logits: Tensor = self.heads[stage](self.dropout(output.chunk(self.config.stages, -1)[stage]))
        return logits

    def teacher_force_stages(self, tokens: Tensor, memory: StackCapMemory) -> list[TeacherForced]:
        """Teacher forcing of every stage, coarse first: cross-entropy supervises them all."""
        outputs, attention = self.unroll(tokens, memory)
        return [TeacherForced(self.score_stage(outputs, stage), attention) for stage in range(self.config.stages)]

    def at_stage(self, stage: int) -> StackCapStage:
        """A `StepModel` that decodes from an earlier stage's head (stage-wise rewards sample every stage)."""
        return StackCapStage(self, stage)


class StackCapStage:
    """Decodes from one stage of a `StackCap`."""

    def __init__(self, captioner: StackCap, stage: int) -> None:
        self.captioner, self.stage = captioner, stage

    def start(self, memory: StackCapMemory) -> StackCapState:
        """The captioner's own start."""
        return self.captioner.start(memory)

    def step(self, tokens: Tensor, state: StackCapState, memory: StackCapMemory) -> Step:
        """One word, scored by this stage."""
        output, state, attention = self.captioner.recurrent_step(tokens, state, memory)
        return Step(self.captioner.score_stage(output, self.stage), state, attention)
