"""What the noun localiser learns: nouns and adjectives of captions that a picture can show.

A picture is positive for a noun when a caption has a word that means it: *puppy* is a positive of *dog*, *boy* one of
*person*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captrial.language.classes import COCO_CLASSES, default_table, scene_words
from captrial.language.nouns import analyse
from captrial.records import Sample

Said = frozenset[str]


class Words(NamedTuple):
    """What the captions of a picture say: nouns (longest entries of the class table, singular) and adjectives."""

    nouns: Said
    adjectives: Said


class Labels(NamedTuple):
    """Nouns and adjectives to learn."""

    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]


def said_words(samples: Sequence[Sample]) -> list[Words]:
    """Nouns and adjectives of all captions of each picture."""
    table = default_table()
    flat = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    found = []
    for sample in samples:
        nouns: set[str] = set()
        adjectives: set[str] = set()
        for one in (next(flat) for _ in sample.captions):
            nouns.update(mention.name for mention in table.mentions(one.lemmas, one.nouns))
            tagged = zip(one.lemmas, one.tags, strict=True)
            adjectives.update(lemma for lemma, tag in tagged if tag.startswith("JJ"))
        found.append(Words(frozenset(nouns), frozenset(adjectives)))
    return found


def choose_labels(words: Sequence[Words], least_nouns: int = 15, least_adjectives: int = 40) -> Labels:
    """Words said of enough pictures that a picture can show; a noun that is mostly an adjective (*orange*) is none."""
    table = default_table()
    in_table = (word for kinds in table.kinds.values() for word in kinds)
    visible = {*in_table, *scene_words(), *visible_words("things")} - visible_words("never")
    nouns = Counter(table.canonical(noun) for one in words for noun in {*one.nouns})
    adjectives = Counter(adjective for one in words for adjective in one.adjectives)
    kinds = meanings([*nouns, *table.kinds])
    shown = Counter(label for one in words for label in {kind for noun in one.nouns for kind in kinds.get(noun, ())})
    named = [
        noun
        for noun, count in shown.most_common()
        if count >= least_nouns and noun in visible and nouns[noun] >= adjectives[noun]
    ]
    looks = visible_words("looks")
    described = [word for word, count in adjectives.most_common() if count >= least_adjectives and word in looks]
    return Labels(tuple(sorted(named)), tuple(sorted(described)))


def meanings(nouns: Iterable[str]) -> dict[str, list[str]]:
    """For every word the nouns among these that it means; a word that could mean two COCO classes only means itself."""
    table = default_table()
    unclear = {word for word, classes in table.meanings(COCO_CLASSES).items() if len(classes) > 1}
    found: dict[str, list[str]] = {}
    for noun in dict.fromkeys(nouns):
        for word in {noun, *(table.words(noun) - unclear)}:
            found.setdefault(word, []).append(noun)
    return found


def targets(words: Sequence[Words], labels: Labels) -> NDArray[np.float32]:
    """1 where a picture is said to show a label: (pictures, nouns + adjectives)."""
    place = {noun: number for number, noun in enumerate(labels.nouns)}
    kinds = {word: [place[noun] for noun in nouns] for word, nouns in meanings(labels.nouns).items()}
    looks = {word: len(place) + number for number, word in enumerate(labels.adjectives)}
    result = np.zeros((len(words), len(place) + len(looks)), np.float32)
    for row, one in zip(result, words, strict=True):
        row[[number for noun in one.nouns for number in kinds.get(noun, ())]] = 1
        row[[looks[word] for word in one.adjectives if word in looks]] = 1
    return result


@cache
def visible_words(kind: str) -> Said:
    """The words of `visible.txt` of a kind: "things", "looks" or "never"."""
    lines = files("captrial.training").joinpath("visible.txt").read_text(encoding="utf-8").splitlines()
    found = [line.removeprefix(f"{kind}:").split(",") for line in lines if line.startswith(f"{kind}:")]
    return frozenset(word.strip() for words in found for word in words)
