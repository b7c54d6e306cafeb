"""Whether a noun is in an image: from the labels of its regions, or calibrated, from what the detector learnt.

The verdict *not in the image* uses the image only. Error rates are those of the detector that made the regions: how
often verdicts were wrong on photographs that neither it nor the threshold was made with (docs/ground.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from captrial.attribution.methods.registry import DEFAULT_METHOD
from captrial.grounding.score import Grounder, LabelPresence, Presence, Verdict
from captrial.language.class_words import ClassTable, default_table
from captrial.records import Sample
from captrial.vision.detectors.noun_presence import NounCalibration

NOUN_ODDS = "noun_odds"  # of `Sample.extra`: log-odds of nouns, from a detector that tells them
ABSENCE = "noun_absence"  # what they mean by that detector: slope, offset and threshold of `NounCalibration`
THINGS, BACKGROUND = "things", "scenery and clothes"  # kinds of nouns whose verdicts are wrong at other rates
NO_RATE = "no measured error rate for this detector"
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


# Error rates ----------------------------------------------------------------------------------------------------------


def error_rates(calibration: NounCalibration | None, method: str = DEFAULT_METHOD) -> dict[str, float] | None:
    """The error rate of every verdict by the references of photographs; None if none was measured for the detector.

    Rates were measured with attention and with integrated gradients; other methods get those of integrated gradients.
    """
    if calibration is None or calibration.measured is None:
        return None
    measured = calibration.measured.get("verdicts", {})
    rates = measured.get(method, measured.get(DEFAULT_METHOD, {}))
    return {verdict: float(entry["error"]) for verdict, entry in rates.items()}


def rates_by_eye(calibration: NounCalibration | None) -> dict[str, dict[str, float]] | None:
    """Verdicts that were checked by eye: `error`, its interval `low` and `high`, and how many `nouns` could be told.

    A reference that does not mention a thing does not show that it is absent, so these rates are the ones to trust.
    Those of *not in the image* are also given by kind of noun: things, scenery and clothes.
    """
    if calibration is None or calibration.measured is None:
        return None
    return {name: dict(entry) for name, entry in calibration.measured.get("by eye", {}).items()} or None


def absence_error(calibration: NounCalibration | None, noun: str) -> float | None:
    """How often *not in the image* is wrong by eye for nouns of this kind; None where that was not measured."""
    rates = rates_by_eye(calibration)
    if calibration is None or calibration.measured is None or rates is None:
        return None
    background = calibration.measured.get(BACKGROUND, ())
    kind = BACKGROUND if noun in background or learnt_names(noun, tuple(background)) else THINGS
    entry = rates.get(f"{Verdict.NOT_IN_IMAGE}, {kind}", rates.get(Verdict.NOT_IN_IMAGE))
    return None if entry is None else float(entry["error"])


def error_note(calibration: NounCalibration | None, method: str = DEFAULT_METHOD) -> str:
    """The rates as one line below tables and pages."""
    rates = error_rates(calibration, method)
    if not rates:
        return NO_RATE
    shown = ", ".join(f"{verdict} {rate:.0%}" for verdict, rate in rates.items() if verdict in set(Verdict))
    note = f"measured on test photographs of Flickr8k by their references, these verdicts are wrong: {shown}"
    eye = rates_by_eye(calibration) or {}
    if absent := eye.pop(Verdict.NOT_IN_IMAGE, None):
        named = {name.removeprefix(f"{Verdict.NOT_IN_IMAGE}, "): rate for name, rate in eye.items()}
        kinds = ", ".join(f"{kind} {_shown(rate)}" for kind, rate in named.items())
        note += f"; by eye, {Verdict.NOT_IN_IMAGE} {_shown(absent)}" + (f" ({kinds})" if kinds else "")
    return f"{note} (docs/ground.md)"


def _shown(rate: Mapping[str, float]) -> str:
    return f"{rate['error']:.0%} [{rate['low']:.0%}, {rate['high']:.0%}]"
