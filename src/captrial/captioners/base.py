"""The contract of the architectures that captrial trains.

    memory = captioner.encode(features)                       once an image
    state = captioner.start(memory)                           before the first word
    logits, state, attention = captioner.step(tokens, state, memory)
    logits, attention = captioner(features, tokens)           teacher forcing: all steps at once

`b` images, `n` captions of each, `t` words, `k` visual elements. Memory has one row an image and is shared by its
captions; nothing about decoding is kept in module buffers.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.decoding.protocol import Step
from captrial.vision.features.visual_features import Features

LEAST_SPREAD = 1e-2  # channels that hardly vary are not blown up


@dataclass(frozen=True)
class CaptionerConfig:
    """What every architecture has; each adds its own sizes, with the paper's as defaults."""

    words: int  # size of the vocabulary, the four special tokens included
    features: int = 2048  # width of one visual element
    width: int = 512  # of the model itself
    standardise: bool = False  # elements are read less their mean over the training images, by their spread


class TeacherForced(NamedTuple):
    """The result of teacher forcing."""

    logits: Tensor  # (b, n, t, words)
    attention: Tensor  # (b, n, t, k)


class Captioner(nn.Module, abc.ABC):
    """The base of all architectures; see the module's docstring for the contract."""

    Config: ClassVar[type[CaptionerConfig]]
    needs_graphs: ClassVar[bool] = False  # uses `Features.relations` and `Features.attributes`
    element_mean: Tensor  # (features,), with `standardise` alone
    element_spread: Tensor

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        if config.standardise:  # filled in by `learn_standard` before training
            self.register_buffer("element_mean", torch.zeros(config.features))
            self.register_buffer("element_spread", torch.ones(config.features))

    def learn_standard(self, batches: Iterable[Features]) -> None:
        """Take mean and spread of every channel from the features of the training images."""
        count, total, squares = 0, torch.zeros(()), torch.zeros(())
        for features in batches:
            elements = features.elements[features.mask].double()  # (n, d)
            count, total, squares = count + len(elements), total + elements.sum(0), squares + (elements**2).sum(0)
        mean = total / count
        spread = (squares / count - mean**2).clamp(min=LEAST_SPREAD**2).sqrt()
        self.element_mean, self.element_spread = mean.to(self.element_mean), spread.to(self.element_spread)

    def standardised(self, features: Features) -> Features:
        """The features as the architecture reads them; every `encode` begins with it."""
        if not self.config.standardise:
            return features
        elements = (features.elements - self.element_mean) / self.element_spread
        return features.with_elements(elements * features.mask.unsqueeze(-1))  # padding stays zero

    @abc.abstractmethod
    def encode(self, features: Features) -> Any:
        """The part of the computation that does not depend on words; tensors (b, ...)."""

    @abc.abstractmethod
    def start(self, memory: Any) -> Any:
        """The state before the first word, one hypothesis an image: tensors (b, 1, ...)."""

    @abc.abstractmethod
    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read the last words `tokens` (b, n) and score the next ones."""

    @abc.abstractmethod
    def teacher_force(self, tokens: Tensor, memory: Any) -> TeacherForced:
        """Teacher forcing on encoded images: `tokens` (b, n, t) begin with BOS; position i scores word i + 1."""

    def teacher_force_stages(self, tokens: Tensor, memory: Any) -> list[TeacherForced]:
        """Teacher forcing of every output stage; most architectures have one."""
        return [self.teacher_force(tokens, memory)]

    def forward(self, features: Features, tokens: Tensor) -> TeacherForced:
        """Teacher forcing with `tokens` (b, n, t), which begin with BOS; see `TeacherForced` for the shapes."""
        return self.teacher_force(tokens, self.encode(features))

    def count_parameters(self) -> int:
        """Trainable parameters."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def describe(self) -> dict[str, object]:
        """The configuration as plain values, as written to `config.json`."""
        return dataclasses.asdict(self.config)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block, the mode before after it."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


def masked_mean(elements: Tensor, mask: Tensor) -> Tensor:
    """Mean over the valid elements: (b, k, d), (b, k) -> (b, d); images without any element give 0."""
    weights = mask.unsqueeze(-1).to(elements.dtype)
    return (elements * weights).sum(1) / weights.sum(1).clamp(min=1)
