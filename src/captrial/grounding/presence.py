"""Whether a noun is in an image: from the labels of its regions, or calibrated, from what the detector learnt.

The verdict *not in the image* uses the image only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from captrial.grounding.score import Grounder, LabelPresence, Presence
from captrial.language.class_words import ClassTable, default_table
from captrial.records import Sample
from captrial.vision.detectors.noun_presence import NounCalibration

NOUN_ODDS = "noun_odds"  # of `Sample.extra`: log-odds of nouns, from a detector that tells them
ABSENCE = "noun_absence"  # what they mean by that detector: slope, offset and threshold of `NounCalibration`
_SHARED_PARTS = frozenset({"chest", "ear", "eye", "face", "foot", "head", "leg", "mouth", "neck", "nose"})
BODY_PARTS = {  # by who has them: they are there wherever such a body is, however seldom people mention them
    "animal": _SHARED_PARTS,
    "person": _SHARED_PARTS | {"arm", "finger", "hair", "hand", "knee", "shoulder"},
}


@dataclass(frozen=True)
class CalibratedPresence:
    """Nouns by the log-odds that people mention them; a noun that the detector has not learnt is not checkable."""

    odds: Mapping[str, float]
    calibration: NounCalibration  # of the detector that the odds are from

    @property
    def threshold(self) -> float:
        """The probability of absence from which on a noun is *not in the image*."""
        return self.calibration.threshold

    def absent(self, noun: str) -> float | None:
        """The probability that a noun which a captioner said is not in the image; of a part, at most its owner's."""
        names = tuple(self.odds)
        known = [self.odds[name] for name in learnt_names(noun, names)]
        if not known:
            return None
        known += [self.odds[name] for name in owners_of(noun, names)]
        return 1 / (1 + math.exp(self.calibration.slope * max(known) - self.calibration.offset))


@cache
def learnt_names(noun: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The learnt nouns that a noun may stand for: itself, else its synonyms and the classes it is a kind of.

    >>> learnt_names("hound", ("dog", "man", "person"))
    ('dog',)
    """
    if noun in names:
        return (noun,)
    table: ClassTable = default_table()
    same = table.canonical(noun)
    return tuple(name for name in names if table.means(noun, name) or table.canonical(name) == same)


@cache
def owners_of(noun: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The learnt nouns for bodies that a part of a body belongs to; none for any other noun.

    >>> (
    ...     owners_of("hand", ("dog", "man", "tree")),
    ...     owners_of("nose", ("dog", "man", "tree")),
    ...     owners_of("tree", ("man",)),
    ... )
    (('man',), ('dog', 'man'), ())
    """
    owners = [owner for owner, parts in BODY_PARTS.items() if noun in parts]
    table: ClassTable = default_table()
    return tuple(name for name in names if any(table.means(name, owner) for owner in owners))


def presence_of(
    grounder: Grounder, labels: list[str], odds: Mapping[str, float] | None, calibration: NounCalibration | None
) -> Presence:
    """What tells whether nouns are in an image with regions of these labels."""
    if odds is None or calibration is None:
        return LabelPresence(grounder, labels)
    return CalibratedPresence(odds, calibration)


def absence_curve(calibration: NounCalibration) -> dict[str, list[float]]:
    """What a calibration says of log-odds, as an entry of `Sample.extra`."""
    return {ABSENCE: [calibration.slope, calibration.offset, calibration.threshold]}


def image_presence(grounder: Grounder, sample: Sample) -> Presence:
    """The same for a sample with regions."""
    odds: Any = sample.extra.get(NOUN_ODDS)
    curve: Any = sample.extra.get(ABSENCE)
    calibration = None if curve is None else NounCalibration(float(curve[0]), float(curve[1]), float(curve[2]))
    return presence_of(grounder, [region.label for region in sample.regions if region.label], odds, calibration)
