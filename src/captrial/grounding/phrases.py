"""Phrases of captions and the regions they refer to, as ground truth of attention.

Phrases with regions come from the data set, or nouns are linked to the classes of boxes. The noun phrases of a
generated caption are matched word by word to those of the references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from captrial.data.images import size_of
from captrial.language.class_words import is_scene
from captrial.language.nouns import Analysis, analyse
from captrial.language.similarity import Similarity
from captrial.language.token_spans import aligned_phrases
from captrial.language.tokenizer import tokenize_all
from captrial.records import Region, Sample
from captrial.vision.preprocess import Preprocess, union_on_square

Mask = NDArray[np.bool_]
NO_REGION, WHOLE, CROPPED = "no region", "the whole image", "cropped away"


@dataclass(frozen=True, slots=True)
class ReferringPhrase:
    """Words `[start, end)` of a caption and the regions they refer to, possibly none."""

    text: str
    start: int
    end: int
    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPhrase:
    """Words `[start, end)` of a caption and the pixels of the square that they refer to."""

    text: str
    start: int
    end: int
    mask: Mask

    @property
    def area(self) -> float:
        """The share of the square: what uniform attention scores."""
        return float(self.mask.mean())


@dataclass(eq=False)
class PhrasePlacer:
    """Finds the mask of a phrase on the square that a model sees, and counts phrases that have none."""

    preprocess: Preprocess
    masks: bool = False  # use the masks of regions that have one, else boxes (Liu 2017)
    dropped: Counter[str] = field(default_factory=Counter)

    def place(self, sample: Sample, phrase: ReferringPhrase) -> PlacedPhrase | None:
        """The phrase on the square; None (and counted) without region, for the whole image, or if cropped away."""
        why = NO_REGION
        if phrase.regions:
            mask = self._mask(sample, phrase.regions)
            if mask.any() and not mask.all():
                return PlacedPhrase(phrase.text, phrase.start, phrase.end, mask)
            why = WHOLE if mask.any() else CROPPED
        self.dropped[why] += 1
        return None

    def _mask(self, sample: Sample, regions: Sequence[Region]) -> Mask:
        width, height = size_of(sample)
        shown = regions if self.masks else [Region(region.box) for region in regions]
        return union_on_square(shown, width, height, self.preprocess)


def reference_phrases(sample: Sample) -> list[list[ReferringPhrase]]:
    """The data set's phrases of every reference, with positions in our tokens and their words as text."""
    tokens = [text.split() for text in tokenize_all(list(sample.captions))]
    return [
        [
            ReferringPhrase(" ".join(words[phrase.start : phrase.end]), phrase.start, phrase.end, phrase.regions)
            for phrase in phrases
        ]
        for words, phrases in zip(tokens, aligned_phrases(sample), strict=True)
    ]


def class_phrases(one: Analysis, sample: Sample, similarity: Similarity) -> list[ReferringPhrase]:
    """The nouns of a caption, each with the image's regions of the classes it means by the table of words.

    Place words refer to the whole image and have no region.
    """
    table = similarity.table
    found = []
    for mention in table.mentions(one.lemmas, one.nouns):
        regions = [region for region in sample.regions if region.label and table.means(mention.name, region.label)]
        place = tuple(regions) if not is_scene(mention.name) else ()
        found.append(
            ReferringPhrase(" ".join(one.tokens[mention.start : mention.end]), mention.start, mention.end, place)
        )
    return found


def match_phrases(one: Analysis, references: Sequence[Sequence[ReferringPhrase]]) -> list[ReferringPhrase]:
    """The noun phrases of a generated caption that occur word by word among the references' phrases (Liu 2017).

    If references use the same words for different things, all their regions count.
    """
    known: dict[str, dict[int, Region]] = {}
    for mentions in references:
        for mention in mentions:
            known.setdefault(mention.text, {}).update({id(region): region for region in mention.regions})
    found = []
    for start, end in one.phrases:
        text = " ".join(one.tokens[start:end])
        if text in known:
            found.append(ReferringPhrase(text, start, end, tuple(known[text].values())))
    return found


def has_phrases(samples: Sequence[Sample]) -> bool:
    """Whether the data set has phrases with regions of its own."""
    return any(phrase.regions for sample in samples for phrases in sample.phrases for phrase in phrases)


def forced_phrases(samples: Sequence[Sample], similarity: Similarity) -> list[list[list[ReferringPhrase]]]:
    """[image][reference] -> phrases: the data set's, or nouns linked to classes if it has none."""
    if has_phrases(samples):
        return [reference_phrases(sample) for sample in samples]
    found = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    return [[class_phrases(next(found), sample, similarity) for _ in sample.captions] for sample in samples]


def generated_phrases(
    samples: Sequence[Sample], captions: Mapping[str, str], similarity: Similarity
) -> list[list[ReferringPhrase]]:
    """[image] -> phrases of the generated caption: matched to the references' phrases, or linked to classes."""
    with_phrases = has_phrases(samples)
    analyses = analyse([captions[sample.id] for sample in samples], phrases=with_phrases)
    if with_phrases:
        return [match_phrases(one, reference_phrases(sample)) for one, sample in zip(analyses, samples, strict=True)]
    return [class_phrases(one, sample, similarity) for one, sample in zip(analyses, samples, strict=True)]
