"""A moving average of the weights: validated and kept instead of the last step's, where a recipe asks for it.

For self-critical training, whose steps are noisy and soon learn the training pictures by heart. The average begins with
the weights of cross-entropy; a stage that begins with random ones has none, since it would be of those for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class MovingAverage:
    """`average <- decay * average + (1 - decay) * weights` after every step, of everything `models` would save."""

    def __init__(self, models: nn.Module, decay: float) -> None:
        self.models, self.decay = models, decay
        self.weights = {name: tensor.detach().clone() for name, tensor in models.state_dict().items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of one more step."""
        for name, tensor in self.models.state_dict().items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - self.decay)
            else:
                self.weights[name].copy_(tensor)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The models have the average as their weights inside the block, and their own again after it."""
        own = {name: tensor.detach().clone() for name, tensor in self.models.state_dict().items()}
        self.models.load_state_dict(self.weights)
        try:
            yield
        finally:
            self.models.load_state_dict(own)
