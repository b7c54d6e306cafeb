"""Where a captioner looks while it says given words: its attention, for many images at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from captrial.attribution.maps import class_token, grid_of
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.trained import generate
from captrial.decoding.protocol import PAD
from captrial.vision.features.visual_features import Features, FeatureSource
from captrial.vision.preprocess import Preprocess

Floats = NDArray[np.float64]
Sentence = Sequence[str]  # words


class Look(NamedTuple):
    """Weights of visual elements for the words of one sentence."""

    weights: Floats  # (words, elements), >= 0
    boxes: Floats  # (elements, 4) relative to the square that the model sees
    grid: tuple[int, int] | None  # rows and columns where the elements are its cells


class Looker(Protocol):
    """A captioner that captions images by id and tells where it looks."""

    name: str
    method: str

    @property
    def preprocess(self) -> Preprocess:
        """How images become the square that boxes are relative to."""
        ...

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """Its own caption of each image."""
        ...

    def look(self, image_ids: Sequence[str], sentences: Sequence[Sequence[Sentence]]) -> list[list[Look]]:
        """For every image, where it looks while it is made to say each of some sentences."""
        ...


@dataclass(eq=False)
class AttentionLooker:
    """One of our captioners and its own attention: soft, or the last layer's cross-attention averaged over heads."""

    name: str
    checkpoint: Checkpoint
    features: FeatureSource
    beam: int = 5
    max_words: int = 20
    method: str = "attention"

    @property
    def preprocess(self) -> Preprocess:
        """That of the features the captioner was trained on."""
        return Preprocess.of(self.checkpoint.vision)

    @torch.no_grad()
    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """Beam search."""
        captioner = self.checkpoint.captioner
        memory = captioner.encode(self.features.get(image_ids).to(self._device()))
        found = generate(captioner, self.checkpoint.vocabulary, memory, self.beam, self.max_words)
        return [" ".join(self.checkpoint.vocabulary.decode(words)) for words in found]

    @torch.no_grad()
    def look(self, image_ids: Sequence[str], sentences: Sequence[Sequence[Sentence]]) -> list[list[Look]]:
        """Teacher forcing of all sentences of all images in one pass."""
        features = self.features.get(image_ids)
        attention = self.attend(features.to(self._device()), self._tokens(sentences))
        looked = []
        for number, said in enumerate(sentences):
            there = features.mask[number]
            boxes = np.zeros((int(there.sum()), 4)) if features.boxes is None else features.boxes[number][there].numpy()
            rows = attention[number].cpu()[..., there].double().numpy()
            looked.append([cells_alone(rows[place, : len(words)], boxes) for place, words in enumerate(said)])
        return looked

    def attend(self, features: Features, tokens: torch.Tensor) -> torch.Tensor:
        """Where it looks while it reads (b, n, t) tokens, (b, n, t, k)."""
        attention: torch.Tensor = self.checkpoint.captioner(features, tokens).attention
        return attention

    def _device(self) -> torch.device:
        return next(self.checkpoint.captioner.parameters()).device

    def _tokens(self, sentences: Sequence[Sequence[Sentence]]) -> torch.Tensor:
        """What is read to say the sentences, (b, n, t): BOS and all words but the last."""
        vocabulary = self.checkpoint.vocabulary
        ids = [[vocabulary.encode(words, eos=False)[: max(len(words), 1)] for words in said] for said in sentences]
        shape = (len(ids), max(map(len, ids)), max(len(one) for said in ids for one in said))
        tokens = torch.full(shape, PAD)
        tokens[..., 0] = vocabulary.encode([], eos=False)[0]
        for image, said in enumerate(ids):
            for number, one in enumerate(said):
                tokens[image, number, : len(one)] = torch.tensor(one)
        return tokens.to(self._device())


def cells_alone(weights: Floats, boxes: NDArray[np.floating]) -> Look:
    """Weights without those of a class token: an element that covers all where the others tile it."""
    cells = ~class_token(boxes)
    left, places = weights[:, cells], np.asarray(boxes[cells], np.float64)
    if not cells.all():
        sums = left.sum(1, keepdims=True)
        left = left / np.where(sums > 0, sums, 1)
    return Look(left, places, grid_of(places))
