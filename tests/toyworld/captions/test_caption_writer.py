"""Captions are varied, true, and their phrases point at the right objects."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from captrial.records import Sample
from captrial.toyworld import OBJECT_CLASSES, SCENE_WORDS, SYNONYMS, plural, tokens
from toyworld.sample_world import graph


def test_five_different_captions_each(every: list[Sample]) -> None:
    for sample in every:
        assert len(set(sample.captions)) == len(sample.captions) == len(sample.phrases) == 5
        for caption in sample.captions:
            assert caption[0].isupper()
            assert caption.endswith(".")
            assert "  " not in caption
            assert " ," not in caption
            assert "{" not in caption
    texts = {caption for sample in every for caption in sample.captions}
    assert len(texts) > 0.85 * 5 * len(every)


@pytest.mark.slow
@pytest.mark.needs("java")
def test_tokens_are_those_of_the_coco_toolkit(every: list[Sample]) -> None:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    texts = sorted({caption for sample in every for caption in sample.captions})
    theirs = PTBTokenizer().tokenize({number: [{"caption": text}] for number, text in enumerate(texts)})
    assert [theirs[number] for number in range(len(texts))] == [[" ".join(tokens(text))] for text in texts]


def test_captions_vary_in_form(samples: dict[str, list[Sample]]) -> None:
    openings = {" ".join(tokens(caption)[:2]) for sample in samples["train"] for caption in sample.captions}
    lengths = Counter(len(tokens(caption)) for sample in samples["train"] for caption in sample.captions)
    assert len(openings) > 60
    assert min(lengths) >= 3
    assert max(lengths) >= 14
    assert max(lengths) <= 32


def test_article_fits_the_next_word(every: list[Sample]) -> None:
    for sample in every:
        for caption in sample.captions:
            words = tokens(caption)
            for word, following in pairwise(words):
                if word in {"a", "an"}:
                    assert (word == "an") == (following[0] in "aeiou"), caption


def test_phrases_spell_their_tokens_and_mean_the_right_class(every: list[Sample]) -> None:
    for sample in every:
        for caption, phrases in zip(sample.captions, sample.phrases, strict=True):
            words = tokens(caption)
            for phrase in phrases:
                assert phrase.text.split() == words[phrase.start : phrase.end]
                assert all(any(region is own for own in sample.regions) for region in phrase.regions)
                if phrase.kinds == ("scene",):
                    assert phrase.regions == ()
                    assert phrase.entity == "scene"
                    assert phrase.text.split()[-1] in SCENE_WORDS
                    continue
                (label,) = {region.label for region in phrase.regions}
                names = SYNONYMS[str(label)]
                singular = len(phrase.regions) == 1
                wanted = set(names) if singular else {plural(name) for name in names}
                assert wanted & set(phrase.text.split()), (phrase.text, label)
                assert phrase.kinds == (OBJECT_CLASSES[str(label)].group,)


def test_every_class_word_of_a_caption_is_in_a_phrase(every: list[Sample]) -> None:
    nouns = {form for names in SYNONYMS.values() for name in names for form in (name, plural(name))}
    for sample in every:
        for caption, phrases in zip(sample.captions, sample.phrases, strict=True):
            inside = {index for phrase in phrases for index in range(phrase.start, phrase.end)}
            outside = [word for index, word in enumerate(tokens(caption)) if index not in inside]
            assert not nouns & set(outside), caption


def test_counts_are_right(every: list[Sample]) -> None:
    numbers = {"two": 2, "three": 3, "four": 4, "pair": 2}
    seen = 0
    for sample in every:
        for phrase in (phrase for phrases in sample.phrases for phrase in phrases):
            for word in set(phrase.text.split()) & set(numbers):
                same = [region for region in sample.regions if region.label == phrase.regions[0].label]
                assert len(phrase.regions) == numbers[word] == len(same)
                seen += 1
    assert seen > 50


def test_colours_in_captions_are_colours_of_the_object(samples: dict[str, list[Sample]]) -> None:
    from captrial.toyworld.drawing.colours import COLOURS

    checked = 0
    for sample in samples["train"] + samples["wild"]:
        objects = {item["id"]: item for item in graph(sample)["objects"]}
        for phrase in (phrase for phrases in sample.phrases for phrase in phrases):
            if phrase.kinds == ("scene",):
                continue
            for number in map(int, str(phrase.entity).split("+")):
                for colour in set(phrase.text.split()) & set(COLOURS) - {objects[number]["label"]}:
                    assert colour in objects[number]["attributes"], phrase.text
                    checked += 1
    assert checked > 300


def test_only_visible_objects_are_mentioned(every: list[Sample]) -> None:
    hidden = 0
    for sample in every:
        mentionable = sample.extra["mentionable"]
        assert isinstance(mentionable, list)
        hidden += len(sample.regions) - len(mentionable)
        for phrase in (phrase for phrases in sample.phrases for phrase in phrases):
            if phrase.entity != "scene":
                assert set(map(int, str(phrase.entity).split("+"))) <= set(mentionable)
    assert hidden > 10  # so that the rule was put to the test
