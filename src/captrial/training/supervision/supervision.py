"""From `--set supervision=strong|weak` to the targets a run trains on (Liu 2017).

*Strong* needs phrases with regions (Flickr30k Entities, the toy world); *weak* needs regions with labels, from people,
a detector or a localiser, whose classes the captions' nouns are linked to: by our table and word vectors, by word
vectors alone, or by those that the captioner has learnt itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from captrial.captioners.base import Captioner
from captrial.data.images import with_size
from captrial.errors import DatasetError, InputError
from captrial.language.class_words import default_table, scene_words
from captrial.language.nouns import analyse
from captrial.language.token_spans import aligned_phrases
from captrial.language.vocabulary import UNK, Vocabulary
from captrial.records import Sample
from captrial.training.recipe import LINKS
from captrial.training.supervision.attention_targets import AttentionTargets, strong_targets, weak_targets
from captrial.vision.preprocess import Preprocess

KINDS = ("implicit", "strong", "weak")


class AttentionLinking(Protocol):
    """What links nouns and classes: `captrial.language.similarity.Similarity`, or the captioner's own word vectors."""

    @property
    def threshold(self) -> float:
        """The similarity from which on they count as linked."""
        ...

    def sim(self, word: str, class_: str) -> float:
        """The similarity of a noun and a class."""
        ...


class OwnVectors:
    """Cosines of the word vectors E that a captioner has learnt (Liu 2017, beside Eq. 11), linked above Liu 2017's third."""

    threshold = 1 / 3

    def __init__(self, captioner: Captioner, vocabulary: Vocabulary) -> None:
        tables = (module.weight for module in captioner.modules() if isinstance(module, nn.Embedding))
        learnt = next(table for table in tables if len(table) == len(vocabulary))  # not the one of positions
        self.vocabulary = vocabulary
        self.vectors: NDArray[np.float64] = learnt.detach().double().cpu().numpy()

    def sim(self, word: str, class_: str) -> float:
        """1 for equal names; 0 where the vocabulary does not know one of them; names of several words: their mean."""
        if word == class_:
            return 1.0
        first, second = self._vector(word), self._vector(class_)
        lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
        return float(first @ second) / max(1e-12, lengths)

    def _vector(self, name: str) -> NDArray[np.float64]:
        known = [self.vectors[self.vocabulary[word]] for word in name.split() if self.vocabulary[word] != UNK]
        return np.mean(known, 0) if known else np.zeros(self.vectors.shape[1])


def make_linking(by: str, learnt: Captioner | None, vocabulary: Vocabulary) -> AttentionLinking:
    """What `--set links=` names; `learnt` is the captioner a run goes on from, None for one that knows nothing yet."""
    from captrial.language.similarity import Similarity

    if by not in LINKS:
        raise InputError(f"--set links={by}: there are {', '.join(LINKS)}")
    if by != "own":
        return Similarity(mode=by)  # type: ignore[arg-type]
    if learnt is None:
        raise InputError("--set links=own: a captioner that knows nothing has no word vectors to go by; --from RUN")
    return OwnVectors(learnt, vocabulary)


def make_targets(
    kind: str, samples: Sequence[Sample], vision: Mapping[str, Any], linking: AttentionLinking | None = None
) -> AttentionTargets | None:
    """Targets of supervised attention for the training samples; None where attention is left implicit.

    `vision` is what the features were made with (`Backbone.describe()`): boxes move along with its preprocessing.
    `linking` is for weak ones; the default is our table of words for classes, else the installed word vectors.
    """
    if kind not in KINDS:
        raise InputError(f"--set supervision={kind}: there are {', '.join(KINDS)}")
    if kind == "implicit":
        return None
    preprocess = Preprocess.of(vision)
    samples = [with_size(sample) for sample in samples]
    return _strong(samples, preprocess) if kind == "strong" else _weak(samples, preprocess, linking)


def _strong(samples: Sequence[Sample], preprocess: Preprocess) -> AttentionTargets:
    aligned = [replace(sample, phrases=aligned_phrases(sample)) for sample in samples]
    if not any(phrase.regions for sample in aligned for phrases in sample.phrases for phrase in phrases):
        raise DatasetError(
            "--set supervision=strong needs phrases with regions (Flickr30k Entities, the toy world), and no caption "
            "of these training images has one; with boxes and classes alone use supervision=weak"
        )
    return strong_targets(aligned, preprocess)


def _weak(samples: Sequence[Sample], preprocess: Preprocess, linking: AttentionLinking | None) -> AttentionTargets:
    if not any(region.label for sample in samples for region in sample.regions):
        raise DatasetError(
            "--set supervision=weak needs regions with labels, and no training image has one; give boxes of a "
            "detector or of people ({id: [[x1, y1, x2, y2, class], ...]})"
        )
    from captrial.language.similarity import Similarity

    linking = linking or Similarity.default()
    return weak_targets(
        samples, preprocess, noun_positions(samples), linking.sim, linking.threshold - 1e-6, scene_words()
    )


def noun_positions(samples: Sequence[Sample]) -> list[list[list[tuple[int, str]]]]:
    """[image][caption] -> (position, name) of what a caption speaks of; every word of a name of several counts."""
    table = default_table()
    found = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    rows: list[list[list[tuple[int, str]]]] = []
    for sample in samples:
        captions = []
        for _ in sample.captions:
            one = next(found)
            mentions = table.mentions(one.lemmas, one.nouns)
            captions.append(
                [(word, mention.name) for mention in mentions for word in range(mention.start, mention.end)]
            )
        rows.append(captions)
    return rows
