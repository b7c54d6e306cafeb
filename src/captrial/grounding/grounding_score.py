"""GroundingScore(delta) and a verdict a noun (Cornia 2022 section 4.2, Eq. 13).

Does a captioner look at what it says, and when? For a noun said at step t the best similarity to a class looked at in
the last `delta` steps counts; looking at it later does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from captrial.language.class_words import default_table
from captrial.language.nouns import Analysis, analyse
from captrial.language.similarity import Similarity

DELTAS: tuple[float, ...] = (0, 1, 3, 5, math.inf)
Noun = tuple[int, str]  # position, lemma (or a name of several words, at its last one)


def name_delta(delta: float) -> str:
    """A delta as tables print it."""
    return "∞" if math.isinf(delta) else f"{delta:g}"


class Verdict(StrEnum):
    """What is to be said of a noun."""

    GROUNDED = "grounded"
    EARLY = "grounded early"
    UNCHECKABLE = "not checkable"
    HALLUCINATED = "hallucinated"


@dataclass(frozen=True, slots=True)
class GroundedNoun:
    """A noun, and how near what was looked at came to it."""

    position: int
    name: str
    best: tuple[float, ...]  # the best similarity of the last 0, 1, ... `position` steps: never falls
    verdict: Verdict

    def at(self, delta: float) -> float:
        """The best similarity of the last `delta` steps."""
        return self.best[int(min(delta, len(self.best) - 1))]

    @property
    def checkable(self) -> bool:
        """Whether some class of the label set could have grounded it."""
        return self.verdict is not Verdict.UNCHECKABLE


@dataclass(frozen=True, slots=True)
class CaptionGrounding:
    """How a caption is grounded: the class looked at with every word, and its nouns."""

    words: tuple[str, ...]
    looked: tuple[str, ...]  # (words,), empty where the image has no region
    nouns: tuple[GroundedNoun, ...]  # empty too where the image has no region

    @property
    def problem(self) -> str | None:
        """Why the caption has no score, if it has none."""
        if not self.looked:
            return "the image has no region with a label" if self.words else "the caption is empty"
        return None if self.nouns else "the caption has no noun"

    def score(self, delta: float, *, checkable: bool = False) -> float | None:
        """GroundingScore(delta): the mean over the caption's nouns (only the checkable ones), None where it has none.

        A fraction; tables print it x100.
        """
        values = [noun.at(delta) for noun in self.nouns if noun.checkable or not checkable]
        return float(np.mean(values)) if values else None

    def scores(self, deltas: Sequence[float] = DELTAS, *, checkable: bool = False) -> list[float | None]:
        """The array of Cornia 2022's figures: one score a delta."""
        return [self.score(delta, checkable=checkable) for delta in deltas]


class Grounder:
    """Grounds captions against a set of labels; what is known of a noun is worked out once.

    `labels` are all classes that regions can have (of the detector or the data set, not of one image): a noun that
    none of them means cannot be checked. `threshold` is tau_g; by default that of `captrial.grounding.threshold`.
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
        """tau_g: the similarity from which on a noun is grounded by a class."""
        if self._threshold is not None:
            return self._threshold
        from captrial.grounding.threshold import grounding_threshold

        return grounding_threshold(self.similarity)

    @property
    def description(self) -> str:
        """How words were compared, tau_g and the label set, as every table must print them."""
        origin = "given" if self._threshold is not None else "calibrated on the toy world"
        return f"{self.similarity.description}; tau_g {self.threshold:.3g} ({origin}); {len(self.labels)} region labels"

    def nouns(self, texts: Sequence[str]) -> list[list[Noun]]:
        """Where each caption says what: see `nouns_of`."""
        return [nouns_of(one, self.similarity) for one in analyse(texts, phrases=False)]

    def ground(self, words: Sequence[str], nouns: Sequence[Noun], looked: Sequence[str]) -> CaptionGrounding:
        """Ground a caption, given the class of the top region at every word; `looked` is empty where there is none."""
        if not looked:
            return CaptionGrounding(tuple(words), (), ())
        assert len(looked) == len(words), f"{len(words)} words and {len(looked)} classes"
        judged = [self._judge(position, name, looked[: position + 1]) for position, name in nouns]
        return CaptionGrounding(tuple(words), tuple(looked), tuple(judged))

    def _judge(self, position: int, name: str, looked: Sequence[str]) -> GroundedNoun:
        back = [self.similarity.sim(name, class_) for class_ in reversed(looked)]  # this step, the one before, ...
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
    """The nouns of a caption: what the class table calls by several words ("teddy bear") is one, at its last word.

    With similarity by vectors alone, as in the papers, every noun counts for itself.
    """
    if similarity.mode == "vectors":
        return [(place, analysis.lemmas[place]) for place in analysis.nouns]
    table = similarity.table if similarity.table is not None else default_table()
    return [(mention.end - 1, mention.name) for mention in table.mentions(analysis.lemmas, analysis.nouns)]
