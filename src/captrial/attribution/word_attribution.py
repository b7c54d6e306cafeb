"""Where a captioner looks by an attribution method, over its visual elements or over pixels; see `looking`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from captrial.attribution.attribution import tile
from captrial.attribution.methods.registry import GRADIENT_METHODS, Settings, attribute
from captrial.attribution.methods.rollout import RolloutLooker
from captrial.attribution.subject import Subject, from_features, from_pixels
from captrial.attribution.targets import word_targets
from captrial.attribution.word_attention import (
    AttentionLooker,
    Look,
    Looker,
    Sentence,
    cells_alone,
)
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.explainable import WordSpan
from captrial.data.images import open_image
from captrial.errors import InputError
from captrial.vision.backbones.base import Backbone
from captrial.vision.features.visual_features import FeatureSource

ATTENTION, ROLLOUT = "attention", "rollout"
OVER_ELEMENTS = (ATTENTION, ROLLOUT)  # methods that know nothing of pixels


@dataclass(eq=False)
class AttributionLooker(AttentionLooker):
    """One of our captioners, asked by gradients which visual elements its words come from."""

    settings: Settings = field(default_factory=Settings)

    def look(self, image_ids: Sequence[str], sentences: Sequence[Sequence[Sentence]]) -> list[list[Look]]:
        """One attribution a sentence; the image is encoded once for all its words."""
        looked = []
        for image, said in zip(image_ids, sentences, strict=True):
            subject = self.subject(image)
            looked.append([self._look(subject, words) for words in said])
        return looked

    def subject(self, image: str) -> Subject:
        """The captioner before an image."""
        features = self.features.get([image]).to(self._device())
        return from_features(self.checkpoint.captioner, features)

    def _look(self, subject: Subject, words: Sentence) -> Look:
        tokens = self.checkpoint.vocabulary.encode(words, bos=False, eos=False)
        spoken = [WordSpan(word, place, place + 1) for place, word in enumerate(words)]
        found = attribute(subject, word_targets(tokens, spoken), self.method, self.settings)
        scores = np.asarray(found.scores, np.float64)
        if subject.is_pixels:
            rows, columns = subject.inputs.shape[1:]
            return Look(scores, tile(rows, columns).astype(np.float64), (rows, columns))
        return cells_alone(scores, np.asarray(found.boxes, np.float64))


@dataclass(eq=False)
class PixelLooker(AttributionLooker):
    """The same through the backbone: which pixels its words come from. Slow: a backward pass through the backbone."""

    backbone: Backbone | None = None
    images: Mapping[str, Path] = field(default_factory=dict)

    def subject(self, image: str) -> Subject:
        """The captioner and its backbone before an image."""
        assert self.backbone is not None
        return from_pixels(self.checkpoint.captioner, self.backbone, open_image(self.images[image]))


def check_method(method: str) -> None:
    """Refuse what a data set cannot be looked at by."""
    known = (*OVER_ELEMENTS, *GRADIENT_METHODS)
    if method not in known:
        raise InputError(f"no method {method!r} for a whole data set; there are {', '.join(known)}")


def make_looker(
    name: str,
    checkpoint: Checkpoint,
    features: FeatureSource,
    method: str,
    beam: int = 5,
    *,
    backbone: Backbone | None = None,
    images: Mapping[str, Path] | None = None,
    settings: Settings | None = None,
) -> Looker:
    """A captioner that is asked by one method where it looks: `attention`, `rollout`, or an attribution method.

    With a backbone and the files of the images, attribution is over their pixels instead of the visual elements.
    `settings` say how gradients are taken.
    """
    check_method(method)
    if method == ATTENTION:
        return AttentionLooker(name, checkpoint, features, beam)
    if method == ROLLOUT:
        return RolloutLooker(name, checkpoint, features, beam)
    settings = settings or Settings()
    if backbone is None:
        return AttributionLooker(name, checkpoint, features, beam, method=method, settings=settings)
    return PixelLooker(
        name,
        checkpoint,
        features,
        beam,
        method=method,
        settings=settings,
        backbone=backbone,
        images=images or {},
    )
