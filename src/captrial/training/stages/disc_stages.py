"""Disc's stages: training the retrieval critic, and SCST with the critic's loss in the reward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.disc import RetrievalCritic
from captrial.decoding.protocol import StepModel
from captrial.training.data import Batch
from captrial.training.schedules import Schedule
from captrial.training.stages.base import Logs, Reward, SelfCritical


@dataclass
class TrainCritic:
    """Train the critic to tell which caption belongs to which image; the captioner does not change.

    The first half of the epochs is against all negatives of a batch: against the hardest alone an untrained critic
    collapses to one point for all images and captions, where the loss is twice the margin, and stays there.
    """

    critic: RetrievalCritic
    epochs: int
    schedule: Schedule
    name: str = "critic"
    validates: bool = False
    averages: bool = False

    def parameters(self) -> Iterable[nn.Parameter]:
        """The critic's."""
        return self.critic.parameters()

    def loss(self, batch: Batch, epoch: int) -> tuple[Tensor, Logs]:
        """The hinge loss of one caption an image; which one changes with the epoch."""
        captions = batch.tokens[:, epoch % batch.tokens.shape[1], 1:]
        images = self.critic.embed_images(batch.features)
        costs = self.critic.loss(images, self.critic.embed_captions(captions), hardest=2 * epoch >= self.epochs)
        return costs.mean(), {"critic_loss": float(costs.detach().mean())}


@dataclass
class Discriminate(SelfCritical):
    """SCST whose reward is CIDEr-D minus the critic's loss of the sampled captions among each other.

    A caption is compared with the captions sampled for the *other* images of the batch, so it is rewarded for what
    tells its image from those.
    """

    critic: RetrievalCritic | None = None
    weight: float = 1.0  # lambda
    name: str = "disc"

    def draw(self, model: StepModel, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """As SCST's, with the critic's loss in the reward of this batch."""
        plain = self.reward
        self.reward = self._with_critic(plain, batch)
        try:
            return super().draw(model, batch)
        finally:
            self.reward = plain

    def _with_critic(self, plain: Reward, batch: Batch) -> Reward:
        critic = self.critic
        assert critic is not None, "train the critic first"
        images = critic.embed_images(batch.features)

        def reward(tokens: Tensor, rows: Tensor) -> Tensor:
            costs = [critic.loss(images, critic.embed_captions(caption)) for caption in tokens.unbind(1)]
            return plain(tokens, rows) - self.weight * torch.stack(costs, 1)

        return reward
