"""Which words of a caption should look where: phrases with a ground-truth region on the square.

References bring phrases with regions, or nouns are linked to the classes of boxes. A generated caption's noun phrases
are matched word by word to those of the references.
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


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Words `[start, end)` of a caption and the pixels of the square that they speak of."""

    text: str
    start: int
    end: int
    mask: Mask

    @property
    def area(self) -> float:
        """The share of the square: what uniform attention scores."""
        return float(self.mask.mean())


@dataclass(eq=False)
class Placer:
    """Puts phrases on the square that a model sees, and counts those that have no usable place."""

    preprocess: Preprocess
    masks: bool = False  # the regions' masks where there are some, else their boxes (Liu 2017)
    dropped: Counter[str] = field(default_factory=Counter)

    def place(self, sample: Sample, text: str, start: int, end: int, regions: Sequence[Region]) -> Placed | None:
        """The phrase on the square, or None (counted): no region, the whole image, or cropped away."""
        why = NO_REGION
        if regions:
            mask = self._mask(sample, regions)
            if mask.any() and not mask.all():
                return Placed(text, start, end, mask)
            why = WHOLE if mask.any() else CROPPED
        self.dropped[why] += 1
        return None

    def _mask(self, sample: Sample, regions: Sequence[Region]) -> Mask:
        width, height = size_of(sample)
        shown = regions if self.masks else [Region(region.box) for region in regions]
        return union_on_square(shown, width, height, self.preprocess)


@dataclass(frozen=True, slots=True)
class Mentioned:
    """Words `[start, end)` of a caption and the regions they speak of, possibly none."""

    text: str
    start: int
    end: int
    regions: tuple[Region, ...]


def said_in_references(sample: Sample) -> list[list[Mentioned]]:
    """The data set's own phrases of every reference caption, counted in our tokens, with their words as text."""
    tokens = [text.split() for text in tokenize_all(list(sample.captions))]
    return [
        [
            Mentioned(" ".join(words[phrase.start : phrase.end]), phrase.start, phrase.end, phrase.regions)
            for phrase in phrases
        ]
        for words, phrases in zip(tokens, aligned_phrases(sample), strict=True)
    ]


def linked_to_classes(one: Analysis, sample: Sample, similarity: Similarity) -> list[Mentioned]:
    """What a caption names, each with the image's regions of the classes it means by the table of words.

    Place words mean the whole image and have no region.
    """
    table = similarity.table
    found = []
    for mention in table.mentions(one.lemmas, one.nouns):
        regions = [region for region in sample.regions if region.label and table.means(mention.name, region.label)]
        place = tuple(regions) if not is_scene(mention.name) else ()
        found.append(Mentioned(" ".join(one.tokens[mention.start : mention.end]), mention.start, mention.end, place))
    return found


def matched(one: Analysis, references: Sequence[Sequence[Mentioned]]) -> list[Mentioned]:
    """The noun phrases of a generated caption that stand word by word among the references' phrases (Liu 2017).

    Where references say the same words of different things, any of those things is right.
    """
    known: dict[str, dict[int, Region]] = {}
    for mentions in references:
        for mention in mentions:
            known.setdefault(mention.text, {}).update({id(region): region for region in mention.regions})
    found = []
    for start, end in one.phrases:
        text = " ".join(one.tokens[start:end])
        if text in known:
            found.append(Mentioned(text, start, end, tuple(known[text].values())))
    return found


def has_phrases(samples: Sequence[Sample]) -> bool:
    """Whether the data set has phrases with regions of its own."""
    return any(phrase.regions for sample in samples for phrases in sample.phrases for phrase in phrases)


def forced_mentions(samples: Sequence[Sample], similarity: Similarity) -> list[list[list[Mentioned]]]:
    """[image][reference] -> mentions: the data set's phrases, or nouns linked to classes where it has none."""
    if has_phrases(samples):
        return [said_in_references(sample) for sample in samples]
    found = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    return [[linked_to_classes(next(found), sample, similarity) for _ in sample.captions] for sample in samples]


def generated_mentions(
    samples: Sequence[Sample], captions: Mapping[str, str], similarity: Similarity
) -> list[list[Mentioned]]:
    """[image] -> mentions of the generated caption: matched to the references' phrases, or linked to classes."""
    with_phrases = has_phrases(samples)
    analyses = analyse([captions[sample.id] for sample in samples], phrases=with_phrases)
    if with_phrases:
        return [matched(one, said_in_references(sample)) for one, sample in zip(analyses, samples, strict=True)]
    return [linked_to_classes(one, sample, similarity) for one, sample in zip(analyses, samples, strict=True)]
