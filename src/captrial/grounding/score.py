"""GroundingScore(delta) and a verdict on every noun (Cornia 2022 section 4.2, Eq. 13).

Is the class of the region behind a noun like the noun? For a noun at step t the best similarity to a class of the last
`delta` steps counts; what comes after the noun does not. The threshold tau_g, from which on a class grounds a noun, is
stored for the similarities that ship with captrial (`thresholds.json`, written by `studies/grounding_threshold.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.language.class_words import default_table
from captrial.language.nouns import Analysis, analyse
from captrial.language.similarity import Similarity
from captrial.language.vectors import linking_curve

DELTAS: tuple[float, ...] = (0, 1, 3, 5, math.inf)
PERSON = "person"
Noun = tuple[int, str]  # position, lemma (or a name of several words, at its last one)


def name_delta(delta: float) -> str:
    """A delta as tables print it: 0, 1, 3, 5 or ∞."""
    return "∞" if math.isinf(delta) else f"{delta:g}"


class Verdict(StrEnum):
    """The verdict on a noun."""

    GROUNDED = "grounded"  # by the top region at the noun
    EARLY = "grounded early"  # by the top region at a word before it
    NOT_LOOKED_AT = "there, but not looked at"  # it was found in the image, but no top region up to the noun is of it
    NOT_IN_IMAGE = "not in the image"  # nothing of that name was found in the image
    UNCHECKABLE = "not checkable"  # no label of the label set could ground it


@dataclass(frozen=True, slots=True)
class GroundedNoun:
    """A noun, its similarity to the classes of the top regions, and its verdict."""

    position: int
    name: str
    best: tuple[float, ...]  # highest similarity of the last 0, 1, ... `position` steps: never falls
    verdict: Verdict
    absent: float | None = None  # the probability that it is not in the image, where that is known

    def at(self, delta: float) -> float:
        """The highest similarity of the last `delta` steps."""
        return self.best[int(min(delta, len(self.best) - 1))]

    @property
    def checkable(self) -> bool:
        """Whether some class of the label set could have grounded it."""
        return self.verdict is not Verdict.UNCHECKABLE

    @property
    def ungrounded(self) -> bool:
        """Whether it is checkable, and no top region up to the noun is of it (*hallucinated* in Cornia 2022)."""
        return self.verdict in (Verdict.NOT_IN_IMAGE, Verdict.NOT_LOOKED_AT)


@dataclass(frozen=True, slots=True)
class CaptionGrounding:
    """The grounding of a caption: the label of the top region of every word, and the nouns with their verdicts."""

    words: tuple[str, ...]
    labels: tuple[str, ...]  # (words,), empty if the image has no region
    nouns: tuple[GroundedNoun, ...]  # empty too if the image has no region

    @property
    def problem(self) -> str | None:
        """Why the caption has no score; None if it has one."""
        if not self.labels:
            return "the image has no region with a label" if self.words else "the caption is empty"
        return None if self.nouns else "the caption has no noun"

    def score(self, delta: float, *, checkable: bool = False) -> float | None:
        """GroundingScore(delta): the mean over the caption's nouns (only the checkable ones), None if it has none.

        It is a fraction; tables print it x100.
        """
        values = [noun.at(delta) for noun in self.nouns if noun.checkable or not checkable]
        return float(np.mean(values)) if values else None

    def scores(self, deltas: Sequence[float] = DELTAS, *, checkable: bool = False) -> list[float | None]:
        """The array of Cornia 2022's figures: one score a delta."""
        return [self.score(delta, checkable=checkable) for delta in deltas]


class Grounder:
    """Grounds captions against a set of labels.

    `labels` are all classes that regions can have (of the detector or the data set, not of one image): a noun that
    none of them means cannot be checked. `threshold` is tau_g, by default that of `grounding_threshold`.
    """

    def __init__(
        self, labels: Sequence[str], similarity: Similarity | None = None, threshold: float | None = None
    ) -> None:
        self.similarity = similarity or Similarity.default()
        self.labels = tuple(dict.fromkeys(labels))
        self._threshold = threshold
        self._checkable: dict[str, bool] = {}

    @cached_property
    def threshold(self) -> float:
        """tau_g: the similarity from which on a class grounds a noun."""
        return self._threshold if self._threshold is not None else grounding_threshold(self.similarity)

    @property
    def description(self) -> str:
        """How words were compared, tau_g and the label set, as every table must print them."""
        origin = "given" if self._threshold is not None else "calibrated on the toy world"
        return f"{self.similarity.description}; tau_g {self.threshold:.3g} ({origin}); {len(self.labels)} region labels"

    def nouns(self, texts: Sequence[str]) -> list[list[Noun]]:
        """The nouns of each caption, see `nouns_of`."""
        return [nouns_of(one, self.similarity) for one in analyse(texts, phrases=False)]

    def ground(
        self, words: Sequence[str], nouns: Sequence[Noun], labels: Sequence[str], presence: Presence | None = None
    ) -> CaptionGrounding:
        """Ground a caption, given the label of the top region of every word; `labels` is empty if there is none.

        `presence` tells what is in the image; by default that is what one of the `labels` names, so give
        `LabelPresence` of all regions of the image, or `captrial.vision.detectors.noun_presence`.
        """
        if not labels:
            return CaptionGrounding(tuple(words), (), ())
        assert len(labels) == len(words), f"{len(words)} words and {len(labels)} labels"
        presence = presence or LabelPresence(self, labels)
        judged = [self._judge(position, name, labels[: position + 1], presence) for position, name in nouns]
        return CaptionGrounding(tuple(words), tuple(labels), tuple(judged))

    def _judge(self, position: int, name: str, labels: Sequence[str], presence: Presence) -> GroundedNoun:
        back = [self.similarity.sim(name, label) for label in reversed(labels)]  # this step, the one before, ...
        best = np.maximum.accumulate(back)
        absent = presence.absent(name)
        fits = [self.names(name, label) for label in reversed(labels)]
        verdict = self._verdict(fits, absent, presence.threshold)
        return GroundedNoun(position, name, tuple(map(float, best)), verdict, absent)

    def _verdict(self, fits: Sequence[bool], absent: float | None, threshold: float) -> Verdict:
        """What the image shows decides first: a noun that is not there cannot be grounded by a doubtful region."""
        if absent is None:
            return Verdict.UNCHECKABLE
        if absent >= threshold:
            return Verdict.NOT_IN_IMAGE
        if fits[0]:
            return Verdict.GROUNDED
        return Verdict.EARLY if any(fits) else Verdict.NOT_LOOKED_AT

    def checkable(self, name: str) -> bool:
        """Whether a class of the label set reaches tau_g with this noun."""
        if name not in self._checkable:
            self._checkable[name] = self.named(name, self.labels)
        return self._checkable[name]

    def names(self, name: str, label: str) -> bool:
        """Whether a label reaches tau_g with a noun; words for people are compared as people."""
        return self.reaches(self.similarity.sim(name, label)) or _both_people(name, label)

    def named(self, name: str, labels: Sequence[str]) -> bool:
        """Whether one of the labels reaches tau_g with a noun."""
        return bool(labels) and self.reaches(float(self.similarity.matrix([name], labels).max()))

    def reaches(self, value: float) -> bool:
        """Whether a similarity grounds a noun."""
        return value >= self.threshold - 1e-6  # similarities are float32


@lru_cache(maxsize=1 << 14)
def _both_people(noun: str, label: str) -> bool:
    """Whether both are words for people: guesses of age and sex, by captioner or detector, decide no verdict."""
    table = default_table()
    return table.means(noun, PERSON) and table.means(label, PERSON)


class Presence(Protocol):
    """Tells how likely it is that a noun is *not* in an image, from the image alone."""

    @property
    def threshold(self) -> float:
        """Of that probability, from which on the verdict is *not in the image*."""
        ...

    def absent(self, noun: str) -> float | None:
        """The probability that the noun is not in the image; None if nothing can be said about it."""
        ...


@dataclass(frozen=True)
class LabelPresence:
    """A noun is in the image if a region's label means it, and not checkable if no label of the label set does."""

    grounder: Grounder
    labels: Sequence[str]  # of all regions of the image
    threshold: float = 0.5

    def absent(self, noun: str) -> float | None:
        """0 or 1; None if the noun is not checkable."""
        if any(self.grounder.names(noun, label) for label in self.labels):
            return 0.0
        return 1.0 if self.grounder.checkable(noun) else None


def nouns_of(analysis: Analysis, similarity: Similarity) -> list[Noun]:
    """The nouns of a caption; a name of several words in the class table ("teddy bear") is one, at its last word.

    With similarity by vectors alone, as in the papers, every noun counts for itself.
    """
    if similarity.mode == "vectors":
        return [(place, analysis.lemmas[place]) for place in analysis.nouns]
    table = similarity.table if similarity.table is not None else default_table()
    return [(mention.end - 1, mention.name) for mention in table.mentions(analysis.lemmas, analysis.nouns)]


# The threshold tau_g --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def grounding_threshold(similarity: Similarity) -> float:
    """tau_g of a similarity: stored for the installed vectors, calibrated on the stored nouns for any other."""
    stored: float | None = _calibration()["thresholds"].get(threshold_key(similarity))
    return stored if stored is not None else calibrate_threshold(similarity)


def threshold_key(similarity: Similarity) -> str:
    """What tau_g depends on: mode, vectors, post-processing and class table."""
    vectors = similarity.vectors
    table = similarity.table.fingerprint if similarity.mode == "table+vectors" else "none"
    return f"{similarity.mode}; {vectors.name}; {vectors.components} components; class table {table}"


def calibrate_threshold(similarity: Similarity) -> float:
    """The middle of the thresholds that link nouns to classes with the best F1, on the nouns of `thresholds.json`.

    These are the toy world's words for its classes (right pairs are a word and its class) and its place words. Where
    the class table alone decides, right pairs are 1 and the threshold is clear of the wrong ones.
    """
    words, classes, truth = calibration_nouns()
    curve = linking_curve(similarity.matrix(words, classes), truth)
    best = max(linking.f1 for linking in curve)
    return round(float(np.mean([linking.threshold for linking in curve if linking.f1 == best])), 3)


def calibration_nouns() -> tuple[list[str], list[str], NDArray[np.bool_]]:
    """Nouns, classes, and which classes each noun may name (nouns, classes)."""
    stored, table = _calibration(), default_table()
    classes: dict[str, list[str]] = stored["classes"]
    words = sorted({word for name, others in classes.items() for word in (name, *others)} | set(stored["places"]))
    truth = [
        [word == name or word in others or table.means(word, name) for name, others in classes.items()]
        for word in words
    ]
    return words, list(classes), np.array(truth)


@cache
def _calibration() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads((files("captrial.grounding") / "thresholds.json").read_bytes())
    return document
