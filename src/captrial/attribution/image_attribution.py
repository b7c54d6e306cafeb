"""Attribution over a data set for captioners that explain images: transformers models, VLMs, your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from captrial.attribution.attribution import WHOLE, Array, Attribution
from captrial.attribution.dataset_attribution import Floats, Words, WordWeights, without_class_token
from captrial.attribution.methods.registry import AttributionSettings, attribute, dataset_method
from captrial.attribution.subject import Subject, explainable_subject, word_targets
from captrial.captioners.protocols import AnyCaptioner, Explainable
from captrial.data.images import open_image
from captrial.language.token_spans import words_of_tokens
from captrial.language.tokenizer import tokenize
from captrial.vision.preprocess import Preprocess


class ExplainedCaptioner(AnyCaptioner, Explainable, Protocol):
    """A captioner whose captions can be explained."""


@dataclass(eq=False)
class ImageAttributor:
    """A `CaptionAttributor` that opens images itself; words are attributed one image and caption after the other.

    Captions are kept, so that several methods (with the same `captions`) caption images only once.
    """

    name: str
    captioner: ExplainedCaptioner
    images: Mapping[str, Path]
    method: str = "attention"
    settings: AttributionSettings = field(default_factory=AttributionSettings)
    captions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dataset_method(self.method)

    @property
    def preprocess(self) -> Preprocess:
        """Boxes are relative to the whole image."""
        return Preprocess()

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """The captioner's own captions, in its batches."""
        missing = [image for image in dict.fromkeys(image_ids) if image not in self.captions]
        found = self.captioner.caption([self._open(image) for image in missing])
        self.captions.update(zip(missing, found, strict=True))
        return [self.captions[image] for image in image_ids]

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        """For every image, the weights of the words of each of some captions."""
        found = []
        for image, texts in zip(image_ids, captions, strict=True):
            subject = explainable_subject(self.captioner, self._open(image), self.settings)
            found.append([self._weights(subject, words) for words in texts])
        return found

    def _weights(self, subject: Subject, words: Words) -> WordWeights:
        tokens = self.captioner.tokenize(" ".join(words))
        found = attribute(subject, word_targets(tokens, self.captioner.word_spans(tokens)), self.method, self.settings)
        scores = rows_of_words(found, words)
        boxes = np.asarray(found.boxes, np.float64)
        if subject.is_pixels:
            return WordWeights(scores, boxes, found.grid if found.window == WHOLE else None)
        return without_class_token(scores, boxes)

    def _open(self, image: str) -> Image.Image:
        return open_image(self.images[image])


def rows_of_words(attribution: Attribution, words: Words) -> Floats:
    """The scores (words, elements) of words as our tokeniser counts them; 0 for one that the captioner's lacks."""
    texts, scores = list(attribution.words), attribution.scores
    tokens, places = tokenize(" ".join(texts)), words_of_tokens(texts)
    found: Floats = np.zeros((len(words), scores.shape[1]))
    for start, own, length in SequenceMatcher(None, list(words), tokens, autojunk=False).get_matching_blocks():
        rows: Array = scores[places[own : own + length]]
        found[start : start + length] = rows
    return found
