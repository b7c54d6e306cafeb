"""Attribution over a data set, for our own captioners on stored features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from captrial.attribution.attribution import Array, class_token, grid_of, tile
from captrial.attribution.methods.registry import AttributionSettings, Needs, attribute, dataset_method
from captrial.attribution.subject import Subject, from_features, from_pixels, word_targets
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.protocols import WordSpan
from captrial.captioners.trained import generate
from captrial.data.images import open_image
from captrial.decoding.protocol import PAD
from captrial.errors import InputError
from captrial.vision.backbones.base import Backbone
from captrial.vision.features.visual_features import FeatureSource
from captrial.vision.preprocess import Preprocess

Floats = NDArray[np.float64]
Words = Sequence[str]  # a tokenised caption


class WordWeights(NamedTuple):
    """Weights of visual elements for the words of one caption."""

    weights: Floats  # (words, elements), >= 0
    boxes: Floats  # (elements, 4) relative to the square that the model sees
    grid: tuple[int, int] | None  # rows and columns if the elements are the cells of a grid


class CaptionAttributor(Protocol):
    """Captions images by id, and attributes the words of captions to visual elements by one method."""

    name: str
    method: str

    @property
    def preprocess(self) -> Preprocess:
        """How images become the square that boxes are relative to."""
        ...

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """The captioner's own caption of each image."""
        ...

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        """For every image, the weights of the words of each of some captions."""
        ...


@dataclass(frozen=True, eq=False)
class PixelSource:
    """What attribution over pixels needs: the backbone of the features, and the files of the images."""

    backbone: Backbone
    images: Mapping[str, Path]


@dataclass(eq=False)
class DatasetAttributor:
    """One of our captioners on stored features, explained by one method of the registry.

    Methods that report attention take all captions of some images in one pass. Methods that differentiate take one
    caption after the other; with `pixels` they go through the backbone, which is slow.
    """

    name: str
    checkpoint: Checkpoint
    features: FeatureSource
    method: str = "attention"
    beam: int = 5
    max_words: int = 20
    settings: AttributionSettings = field(default_factory=AttributionSettings)
    pixels: PixelSource | None = None

    def __post_init__(self) -> None:
        entry = dataset_method(self.method)
        if entry.needs is Needs.IMAGE_TOKENS:
            raise InputError(f"{self.method} follows the image tokens of a VLM, which {self.name} does not have")
        if entry.check is not None:  # before any work is done
            entry.function("check")(self.checkpoint.captioner)

    @property
    def preprocess(self) -> Preprocess:
        """That of the features the captioner was trained on."""
        return Preprocess.of(self.checkpoint.vision)

    @torch.no_grad()
    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """Captions by beam search."""
        captioner, power = self.checkpoint.captioner, self.checkpoint.length_power
        memory = captioner.encode(self.features.get(image_ids).to(self._device()))
        found = generate(captioner, self.checkpoint.vocabulary, memory, self.beam, self.max_words, power)
        return [" ".join(self.checkpoint.vocabulary.decode(words)) for words in found]

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        """For every image, the weights of the words of each of some captions."""
        if dataset_method(self.method).attend is not None:
            return self._attend(image_ids, captions)
        found = []
        for image, texts in zip(image_ids, captions, strict=True):
            subject = self._subject(image)
            found.append([self._weights(subject, words) for words in texts])
        return found

    @torch.no_grad()
    def _attend(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        """Teacher forcing of all captions of all images in one pass."""
        features = self.features.get(image_ids)
        attend = dataset_method(self.method).function("attend")
        attention = attend(self.checkpoint.captioner, features.to(self._device()), self.tokens(captions))
        found = []
        for number, texts in enumerate(captions):
            present = features.mask[number]
            boxes = np.zeros((int(present.sum()), 4))
            if features.boxes is not None:
                boxes = features.boxes[number][present].numpy()
            rows = attention[number].cpu()[..., present].double().numpy()
            found.append([without_class_token(rows[place, : len(words)], boxes) for place, words in enumerate(texts)])
        return found

    def _subject(self, image: str) -> Subject:
        if self.pixels is not None:
            opened = open_image(self.pixels.images[image])
            return from_pixels(self.checkpoint.captioner, self.pixels.backbone, opened)
        features = self.features.get([image]).to(self._device())
        return from_features(self.checkpoint.captioner, features)

    def _weights(self, subject: Subject, words: Words) -> WordWeights:
        tokens = self.checkpoint.vocabulary.encode(words, bos=False, eos=False)
        spans = [WordSpan(word, place, place + 1) for place, word in enumerate(words)]
        found = attribute(subject, word_targets(tokens, spans), self.method, self.settings)
        scores = np.asarray(found.scores, np.float64)
        if subject.is_pixels:
            rows, columns = subject.inputs.shape[1:]
            return WordWeights(scores, tile(rows, columns).astype(np.float64), (rows, columns))
        return without_class_token(scores, np.asarray(found.boxes, np.float64))

    def _device(self) -> torch.device:
        return next(self.checkpoint.captioner.parameters()).device

    def tokens(self, captions: Sequence[Sequence[Words]]) -> torch.Tensor:
        """What the decoder is fed to predict the captions, (b, n, t): BOS and all words but the last."""
        vocabulary = self.checkpoint.vocabulary
        ids = [[vocabulary.encode(words, eos=False)[: max(len(words), 1)] for words in texts] for texts in captions]
        shape = (len(ids), max(map(len, ids)), max(len(one) for texts in ids for one in texts))
        tokens = torch.full(shape, PAD)
        tokens[..., 0] = vocabulary.encode([], eos=False)[0]
        for image, texts in enumerate(ids):
            for number, one in enumerate(texts):
                tokens[image, number, : len(one)] = torch.tensor(one)
        return tokens.to(self._device())


class RecordedCaptions:
    """A `CaptionAttributor` that has its captions from before, so that several methods caption images only once."""

    def __init__(self, attributor: CaptionAttributor, captions: Mapping[str, str]) -> None:
        self.attributor, self.captions = attributor, captions
        self.name, self.method = attributor.name, attributor.method

    @property
    def preprocess(self) -> Preprocess:
        """That of the attributor."""
        return self.attributor.preprocess

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """The recorded caption of each image."""
        return [self.captions[image] for image in image_ids]

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        """As the attributor does."""
        return self.attributor.attribute(image_ids, captions)


def without_class_token(weights: Floats, boxes: Array) -> WordWeights:
    """Weights without those of a class token (it covers everything and the others tile it), renormalised."""
    cells = ~class_token(boxes)
    kept, places = weights[:, cells], np.asarray(boxes[cells], np.float64)
    if not cells.all():
        sums = kept.sum(1, keepdims=True)
        kept = kept / np.where(sums > 0, sums, 1)
    return WordWeights(kept, places, grid_of(places))
