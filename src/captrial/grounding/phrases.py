"""Phrases of captions and the regions they refer to, as ground truth of attention.

Phrases with regions come from the data set, or nouns are linked to the classes of boxes. The noun phrases of a
generated caption are matched word by word to those of the references: any words that could be a phrase of their own, so
that "a group of people" is found as well as "people".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from captrial.data.datasets.coco import region_shapes
from captrial.data.sample_sizes import size_of
from captrial.language.class_words import is_scene
from captrial.language.nouns import Analysis, analyse
from captrial.language.similarity import Similarity
from captrial.language.token_spans import aligned_phrases
from captrial.language.tokenizer import tokenize_all
from captrial.records import Region, Sample
from captrial.vision.preprocess import Preprocess, union_on_square

Mask = NDArray[np.bool_]
# Tags of words that stand before a noun and belong to it: determiners, adjectives, numbers, nouns, possessives.
_BEFORE_NOUN = frozenset({"CD", "DT", "JJ", "JJR", "JJS", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP$"})
NO_REGION, WHOLE, CROPPED = "no region", "the whole image", "cropped away"


@dataclass(frozen=True, slots=True)
class ReferringPhrase:
    """Words `[start, end)` of a caption and the regions they refer to, possibly none."""

    text: str
    start: int
    end: int
    regions: tuple[Region, ...]
    kind: str = ""  # what the data set calls its entity: people, clothing ...; a class where nouns are linked


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
        shapes = region_shapes(sample, regions, masks=self.masks)
        return union_on_square(shapes, width, height, self.preprocess)


def reference_phrases(sample: Sample) -> list[list[ReferringPhrase]]:
    """The data set's phrases of every reference, with positions in our tokens and their words as text."""
    tokens = [text.split() for text in tokenize_all(list(sample.captions))]
    return [
        [
            ReferringPhrase(
                " ".join(words[phrase.start : phrase.end]),
                phrase.start,
                phrase.end,
                phrase.regions,
                phrase.kinds[0] if phrase.kinds else "",
            )
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
        text, kind = " ".join(one.tokens[mention.start : mention.end]), place[0].label if place else ""
        found.append(ReferringPhrase(text, mention.start, mention.end, place, kind or ""))
    return found


def match_phrases(one: Analysis, references: Sequence[Sequence[ReferringPhrase]]) -> list[ReferringPhrase]:
    """The phrases of a generated caption that occur word by word among the references' phrases (Liu 2017).

    Words are matched where they could be a phrase: they end in a noun that the next word does not continue ("a dog" is
    not in "a dog house"), and the word before does not belong to them ("dog" is not in "a brown dog"). Of matches that
    overlap the longest counts. If references use the same words for different things, all their regions count.
    """
    known: dict[str, dict[int, Region]] = {}
    kinds: dict[str, str] = {}
    for mentions in references:
        for mention in mentions:
            known.setdefault(mention.text, {}).update({id(region): region for region in mention.regions})
            kinds.setdefault(mention.text, mention.kind)
    longest = max((text.count(" ") + 1 for text in known), default=0)
    found: list[ReferringPhrase] = []
    for size in range(longest, 0, -1):
        for start in range(len(one.tokens) - size + 1):
            text, end = " ".join(one.tokens[start : start + size]), start + size
            free = all(end <= other.start or other.end <= start for other in found)
            if text in known and free and _is_phrase(one, start, end):
                found.append(ReferringPhrase(text, start, end, tuple(known[text].values()), kinds[text]))
    return sorted(found, key=lambda phrase: phrase.start)


def _is_phrase(one: Analysis, start: int, end: int) -> bool:
    """Whether words `[start, end)` are a whole noun phrase: nothing before or after them belongs to their noun."""
    before = one.tags[start - 1] if start else ""
    after = one.tags[end] if end < len(one.tags) else ""
    return end - 1 in one.nouns and before not in _BEFORE_NOUN and not after.startswith("NN")


def has_phrases(samples: Sequence[Sample]) -> bool:
    """Whether the data set has phrases with regions of its own."""
    return any(phrase.regions for sample in samples for phrases in sample.phrases for phrase in phrases)


def forced_phrases(
    samples: Sequence[Sample], similarity: Similarity, classes: bool = False
) -> list[list[list[ReferringPhrase]]]:
    """[image][reference] -> phrases: the data set's or, with `classes`, nouns linked to the classes of its boxes."""
    if not classes:
        return [reference_phrases(sample) for sample in samples]
    found = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    return [[class_phrases(next(found), sample, similarity) for _ in sample.captions] for sample in samples]


def generated_phrases(
    samples: Sequence[Sample], captions: Mapping[str, str], similarity: Similarity, classes: bool = False
) -> list[list[ReferringPhrase]]:
    """[image] -> phrases of the generated caption: matched to the references' or, with `classes`, linked to boxes."""
    analyses = analyse([captions[sample.id] for sample in samples], phrases=False)
    if not classes:
        return [match_phrases(one, reference_phrases(sample)) for one, sample in zip(analyses, samples, strict=True)]
    return [class_phrases(one, sample, similarity) for one, sample in zip(analyses, samples, strict=True)]
