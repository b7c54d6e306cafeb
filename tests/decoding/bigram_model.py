"""A model small enough to enumerate everything it can say."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from captrial.decoding import BOS, Step

WORDS = 6  # PAD, BOS, EOS and three words


class Bigrams:
    """A random model in which the next word depends on the last two words and the image."""

    def __init__(self, images: int, seed: int = 0, words: int = WORDS) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = 2 * torch.randn(images, words, words, words, generator=generator)
        self.memory = {"table": self.table, "id": torch.arange(images)}
        self.rows_stepped = 0

    def start(self, memory: Any) -> Any:
        return (torch.full((len(memory["table"]), 1), BOS),)

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        self.rows_stepped += len(tokens)
        rows = torch.arange(len(tokens)).unsqueeze(1)
        attention = torch.nn.functional.one_hot(tokens, self.table.shape[-1]).float()
        return Step(memory["table"][rows, state[0], tokens], (tokens,), attention)
