"""Captions of a whole data set by a captioner in training, and their score on the validation images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from captrial.captioners.base import Captioner
from captrial.captioners.trained import generate, with_graphs
from captrial.language.vocabulary import Vocabulary
from captrial.metrics.ngram.cider import cider
from captrial.progress import track
from captrial.records import Sample
from captrial.training.stages.stages import evaluating
from captrial.vision.features.visual_features import FeatureSource


@torch.no_grad()
def caption_images(
    captioner: Captioner,
    vocabulary: Vocabulary,
    features: FeatureSource,
    image_ids: Sequence[str],
    *,
    beam: int = 5,
    batch: int = 50,
    max_words: int = 20,
) -> list[str]:
    """One caption an image, in the order of the ids; `beam` 1 is greedy."""
    captions: list[str] = []
    features = with_graphs(captioner, vocabulary, features)
    device = next(captioner.parameters()).device
    with evaluating(captioner):
        for start in track(range(0, len(image_ids), batch), "captioning"):
            memory = captioner.encode(features.get(image_ids[start : start + batch]).to(device))
            said = generate(captioner, vocabulary, memory, beam, max_words)
            captions.extend(" ".join(vocabulary.decode(words)) for words in said)
    return captions


@dataclass(frozen=True, eq=False)
class Validation:
    """CIDEr-D of greedy (or beam) captions of the validation images; document frequencies from their references."""

    captioner: Captioner
    vocabulary: Vocabulary
    features: FeatureSource
    samples: Sequence[Sample]
    beam: int = 1

    def __call__(self) -> float:
        """The score, as a fraction (1.0 is what papers print as 100)."""
        ids = [sample.id for sample in self.samples]
        captions = caption_images(self.captioner, self.vocabulary, self.features, ids, beam=self.beam)
        return cider(captions, [sample.captions for sample in self.samples]).corpus
