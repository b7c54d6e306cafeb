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
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.language.class_words import default_table
from captrial.language.nouns import Analysis, analyse
from captrial.language.similarity import Similarity
from captrial.language.vectors import linking_curve

DELTAS: tuple[float, ...] = (0, 1, 3, 5, math.inf)
Noun = tuple[int, str]  # position, lemma (or a name of several words, at its last one)


def name_delta(delta: float) -> str:
    """A delta as tables print it: 0, 1, 3, 5 or ∞."""
    return "∞" if math.isinf(delta) else f"{delta:g}"


class Verdict(StrEnum):
    """The verdict on a noun."""

    GROUNDED = "grounded"  # by the top region at the noun
    EARLY = "grounded early"  # by the top region at a word before it
    UNCHECKABLE = "not checkable"  # no label of the label set could ground it
    HALLUCINATED = "hallucinated"


@dataclass(frozen=True, slots=True)
class GroundedNoun:
    """A noun, its similarity to the classes of the top regions, and its verdict."""

    position: int
    name: str
    best: tuple[float, ...]  # highest similarity of the last 0, 1, ... `position` steps: never falls
    verdict: Verdict

    def at(self, delta: float) -> float:
        """The highest similarity of the last `delta` steps."""
        return self.best[int(min(delta, len(self.best) - 1))]

    @property
    def checkable(self) -> bool:
        """Whether some class of the label set could have grounded it."""
        return self.verdict is not Verdict.UNCHECKABLE


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

    def ground(self, words: Sequence[str], nouns: Sequence[Noun], labels: Sequence[str]) -> CaptionGrounding:
        """Ground a caption, given the label of the top region of every word; `labels` is empty if there is none."""
        if not labels:
            return CaptionGrounding(tuple(words), (), ())
        assert len(labels) == len(words), f"{len(words)} words and {len(labels)} labels"
        judged = [self._judge(position, name, labels[: position + 1]) for position, name in nouns]
        return CaptionGrounding(tuple(words), tuple(labels), tuple(judged))

    def _judge(self, position: int, name: str, labels: Sequence[str]) -> GroundedNoun:
        back = [self.similarity.sim(name, label) for label in reversed(labels)]  # this step, the one before, ...
        best = np.maximum.accumulate(back)
        return GroundedNoun(position, name, tuple(map(float, best)), self._verdict(name, best[0], best[-1]))

    def _verdict(self, name: str, now: float, ever: float) -> Verdict:
        if self._reaches(now):
            return Verdict.GROUNDED
        if self._reaches(ever):
            return Verdict.EARLY
        return Verdict.HALLUCINATED if self.checkable(name) else Verdict.UNCHECKABLE

    def checkable(self, name: str) -> bool:
        """Whether a class of the label set reaches tau_g with this noun."""
        if name not in self._checkable:
            nearest = self.similarity.matrix([name], self.labels).max(initial=-1.0) if self.labels else -1.0
            self._checkable[name] = self._reaches(float(nearest))
        return self._checkable[name]

    def _reaches(self, value: float) -> bool:
        return value >= self.threshold - 1e-6  # similarities are float32


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
