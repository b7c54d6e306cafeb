"""Phrases of captions and their regions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from captrial.grounding.phrases import (
    CROPPED,
    NO_REGION,
    WHOLE,
    PhrasePlacer,
    ReferringPhrase,
    class_phrases,
    match_phrases,
    reference_phrases,
)
from captrial.language.nouns import analyse
from captrial.language.similarity import Similarity
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.preprocess import Preprocess

DOG, OTHER = Region(Box(0, 0, 50, 50), "dog"), Region(Box(50, 50, 100, 100), "dog")


def test_generated_captions_are_matched_word_by_word() -> None:
    sample = Sample(
        ImageRef("1", width=100, height=100), ("A dog sees a big cat.", "A dog.", "The cat."), "test", (DOG, OTHER)
    )
    references = [
        [ReferringPhrase("a dog", 0, 2, (DOG,)), ReferringPhrase("a big cat", 3, 6, (OTHER,))],
        [ReferringPhrase("a dog", 0, 2, (OTHER,))],
    ]
    one = analyse(["a dog and a cat and a big cat"])[0]
    found = match_phrases(one, references)
    assert [(mention.text, mention.start) for mention in found] == [("a dog", 0), ("a big cat", 6)]
    assert found[0].regions == (DOG, OTHER)  # two dogs are called so: either is right
    assert reference_phrases(sample) == [[], [], []]


def test_nouns_are_linked_to_classes() -> None:
    sample = Sample(ImageRef("1", width=100, height=100), ("x",), "test", (DOG, Region(Box(0, 0, 9, 9), "teddy bear")))
    one = analyse(["two puppies and a teddy bear on the street near a car"])[0]
    found = class_phrases(one, sample, Similarity.default())
    assert [(mention.text, [region.label for region in mention.regions]) for mention in found] == [
        ("puppies", ["dog"]), ("teddy bear", ["teddy bear"]), ("street", []), ("car", []),
    ]  # fmt: skip


def test_places_that_cannot_be_measured_are_counted() -> None:
    sample = Sample(ImageRef("1", width=200, height=100))
    placer = PhrasePlacer(Preprocess(224, "crop", 256))
    for regions in ((), (Region(Box(0, 0, 10, 100)),), (Region(Box(0, 0, 200, 100)),)):
        assert placer.place(sample, ReferringPhrase("it", 0, 1, regions)) is None
    assert placer.dropped == Counter({NO_REGION: 1, CROPPED: 1, WHOLE: 1})
    placed = placer.place(sample, ReferringPhrase("it", 0, 1, (Region(Box(0, 0, 100, 100)),)))
    assert placed is not None
    assert placed.area == pytest.approx(0.5)


def test_masks_are_used_when_asked_for() -> None:
    mask = np.zeros((100, 100), dtype=bool)
    mask[:10, :10] = True
    sample = Sample(ImageRef("1", width=100, height=100))
    region = Region(Box(0, 0, 50, 50), "dog", mask=mask)
    phrase = ReferringPhrase("it", 0, 1, (region,))
    areas = [PhrasePlacer(Preprocess(), masks).place(sample, phrase) for masks in (False, True)]
    assert [round(placed.area, 2) for placed in areas if placed] == [0.25, 0.01]


def test_phrases_of_several_noun_chunks_are_matched() -> None:
    """What base noun chunks lose: "a group of people" is one phrase, and the longest match counts."""
    references = [
        [ReferringPhrase("a group of people", 0, 4, (DOG,), "people"), ReferringPhrase("people", 5, 6, (OTHER,))]
    ]
    (one,) = analyse(["a group of people walk past people"])
    found = match_phrases(one, references)
    assert [(phrase.text, phrase.start, phrase.kind) for phrase in found] == [
        ("a group of people", 0, "people"), ("people", 6, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("caption", "phrase"),
    [("a dog house", "a dog"), ("a brown dog", "dog"), ("two dogs", "dogs"), ("the running", "the")],
)
def test_parts_of_a_phrase_are_no_match(caption: str, phrase: str) -> None:
    references = [[ReferringPhrase(phrase, 0, len(phrase.split()), (DOG,))]]
    assert match_phrases(analyse([caption])[0], references) == []
