"""Training data: which images train and validate, and batches of images with several captions each.

The order of batches depends on seed and epoch only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from captrial.decoding.protocol import PAD
from captrial.errors import DatasetError
from captrial.language.tokenizer import tokenize_all
from captrial.language.vocabulary import Vocabulary
from captrial.records import Sample
from captrial.vision.features.visual_features import Features, FeatureSource

BATCHES_SORTED_TOGETHER = 16
VALIDATION_SHARE = 10  # one image in so many, where a data set names no validation images


@dataclass(frozen=True, eq=False)
class Batch:
    """`b` images with `n` captions each."""

    rows: Tensor  # (b,): which images of the data set these are
    captions: Tensor  # (b, n): which captions of each image
    features: Features
    tokens: Tensor  # (b, n, t): BOS, words, EOS, PAD

    def to(self, device: torch.device | str) -> Batch:
        """The same batch, with what a captioner reads on another device."""
        return Batch(self.rows, self.captions, self.features.to(device), self.tokens.to(device))

    def pieces(self, count: int) -> list[Batch]:
        """The batch cut into at most `count` smaller ones."""
        parts = torch.arange(len(self.rows)).chunk(count)
        return [Batch(self.rows[i], self.captions[i], self.features.select(i), self.tokens[i]) for i in parts]

    @property
    def inputs(self) -> Tensor:
        """The words the captioner reads, (b, n, t - 1)."""
        return self.tokens[..., :-1]

    @property
    def targets(self) -> Tensor:
        """The words it should predict, (b, n, t - 1)."""
        return self.tokens[..., 1:]


@dataclass(frozen=True, eq=False)
class CaptionData:
    """Images, their captions as token ids, and where their features are."""

    samples: Sequence[Sample]
    vocabulary: Vocabulary
    features: FeatureSource
    captions: int = 5  # an image and epoch
    max_words: int = 20
    token_ids: list[list[list[int]]] = field(init=False)  # [image][caption][BOS, words, EOS], not cut

    def __post_init__(self) -> None:
        for sample in self.samples:
            if not sample.captions:
                raise DatasetError(f"image {sample.id} has no caption; training needs at least one")
        words = tokenize_captions(self.samples)
        ids = [[self.vocabulary.encode(caption) for caption in captions] for captions in words]
        object.__setattr__(self, "token_ids", ids)

    def __len__(self) -> int:
        return len(self.samples)

    def batches(
        self, size: int, seed: int, epoch: int, start: int = 0, share: slice = slice(None)
    ) -> Iterator[Batch | None]:
        """The batches of an epoch from number `start` on; one of them may be smaller.

        With `share` only those images of each (see `captrial.training.parallel`), None where there are none.
        """
        for number, rows in enumerate(self._deal(size, np.random.default_rng((seed, epoch)))):
            if number >= start:
                generator = np.random.default_rng((seed, epoch, number))
                yield self.batch(rows, generator, share) if len(rows[share]) else None

    def _deal(self, size: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """Rows of every batch: shuffled, then sorted by length within a few batches' worth, then batches shuffled.

        A batch is as long as its longest caption: among images of like length a quarter fewer steps are padding.
        """
        order = generator.permutation(len(self))
        longest = np.array([max(len(self._cut(caption)) for caption in captions) for captions in self.token_ids])
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), size * BATCHES_SORTED_TOGETHER):
            window = order[start : start + size * BATCHES_SORTED_TOGETHER]
            window = window[np.argsort(longest[window], kind="stable")]
            batches.extend(window[at : at + size] for at in range(0, len(window), size))
        return [batches[number] for number in generator.permutation(len(batches))]

    def count_batches(self, size: int) -> int:
        """Batches an epoch."""
        return math.ceil(len(self) / size)

    def batch(self, rows: NDArray[np.int64], generator: np.random.Generator, share: slice = slice(None)) -> Batch:
        """A batch of these images; `captions` are drawn where an image has more, repeated where it has fewer."""
        chosen = np.stack([self._choose(len(self.token_ids[row]), generator) for row in rows])  # (b, n)
        rows, chosen = rows[share], chosen[share]  # drawn for all, so that shares fit together
        chosen_ids = [
            [self._cut(self.token_ids[row][number]) for number in numbers]
            for row, numbers in zip(rows, chosen, strict=True)
        ]
        tokens = torch.full((*chosen.shape, max(len(caption) for captions in chosen_ids for caption in captions)), PAD)
        for image, captions in enumerate(chosen_ids):
            for number, caption in enumerate(captions):
                tokens[image, number, : len(caption)] = torch.tensor(caption)
        features = self.features.get([self.samples[row].id for row in rows])
        return Batch(torch.from_numpy(rows), torch.from_numpy(chosen), features, tokens)

    def _cut(self, caption: list[int]) -> list[int]:
        """BOS and at most `max_words` words; a caption that is cut has no EOS, lest the model learn to end at "a"."""
        return caption if len(caption) <= self.max_words + 2 else caption[: self.max_words + 1]

    def _choose(self, available: int, generator: np.random.Generator) -> NDArray[np.int64]:
        if available == self.captions:
            return np.arange(available)
        return generator.choice(available, self.captions, replace=available < self.captions)


def split_samples(samples: Sequence[Sample], source: str = "the data set") -> tuple[list[Sample], list[Sample]]:
    """Training and validation images: by the data set's splits, else every tenth image validates.

    `source` names the data set in messages.
    """
    samples = [sample for sample in samples if sample.captions]
    training = [sample for sample in samples if sample.split in ("train", "restval", None)]
    validation = [sample for sample in samples if sample.split == "val"]
    if not training:
        raise DatasetError(f"no captions found in {source}: no image of the split train (or without a split) has one")
    if not validation:
        validation = training[::VALIDATION_SHARE]
        training = [sample for number, sample in enumerate(training) if number % VALIDATION_SHARE]
    return training, validation


def tokenize_captions(samples: Sequence[Sample]) -> list[list[list[str]]]:
    """The words of every caption of every image, tokenised in one bulk pass."""
    flat = iter(tokenize_all([caption for sample in samples for caption in sample.captions]))
    return [[next(flat).split() for _ in sample.captions] for sample in samples]
