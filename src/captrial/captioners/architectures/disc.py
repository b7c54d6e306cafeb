"""Disc (Luo et al. 2018): Att2in trained to tell an image from others.

The captioner is Att2in; what makes it Disc is its training: a retrieval critic, trained first and then frozen, whose
contrastive loss on the sampled captions is part of the reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from captrial.captioners.architectures.att2in import Att2in, Att2inConfig
from captrial.captioners.base import masked_mean
from captrial.decoding.protocol import PAD
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class DiscConfig(Att2inConfig):
    """Sizes of the paper."""

    critic_width: int = 1024
    critic_embedding: int = 512
    margin: float = 0.2


class Disc(Att2in):
    """Att2in; see `RetrievalCritic` and `captrial.training` for what is special about its training."""

    Config: ClassVar[type[DiscConfig]] = DiscConfig
    config: DiscConfig


class RetrievalCritic(nn.Module):
    """Embeds images and captions on one sphere, so that a caption lies near its own image (VSE++)."""

    def __init__(self, config: DiscConfig) -> None:
        super().__init__()
        self.config = config
        self.picture = nn.Linear(config.features, config.critic_width)  # its name is part of saved states: kept
        self.words = nn.Embedding(config.words, config.critic_embedding)
        self.reader = nn.GRU(config.critic_embedding, config.critic_width, batch_first=True)
        nn.init.xavier_uniform_(self.picture.weight)

    def embed_images(self, features: Features) -> Tensor:
        """(b, width), of length 1."""
        return functional.normalize(self.picture(masked_mean(features.elements, features.mask)), dim=-1)

    def embed_captions(self, tokens: Tensor) -> Tensor:
        """Captions (b, t), PAD after the end -> (b, width), of length 1: the state after the last word."""
        states, _ = self.reader(self.words(tokens))
        last = ((tokens != PAD).sum(1) - 1).clamp(min=0)
        return functional.normalize(states[torch.arange(len(tokens), device=tokens.device), last], dim=-1)

    def loss(self, images: Tensor, captions: Tensor, hardest: bool = True) -> Tensor:
        """Hinge loss of each pair against its hardest negatives in the batch, or all of them, both ways: (b,).

        `images` and `captions` (b, width) are embedded pairs; the other pairs of the batch are the negatives.
        """
        similarity = images @ captions.T
        right = similarity.diagonal()
        wrong = ~torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
        cost_caption = (self.config.margin + similarity - right.unsqueeze(1)).clamp(min=0) * wrong
        cost_image = (self.config.margin + similarity - right.unsqueeze(0)).clamp(min=0) * wrong
        if hardest:
            return cost_caption.amax(1) + cost_image.amax(0)
        return cost_caption.sum(1) + cost_image.sum(0)
