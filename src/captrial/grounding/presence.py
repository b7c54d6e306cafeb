"""Whether a noun is in an image: from the labels of its regions, or calibrated, from what the detector learnt.

The verdict *not in the image* uses the image only. With the shipped detector it carries a measured error rate: how
often verdicts were wrong on photographs that neither the detector nor the threshold was made with (docs/ground.md).
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
from captrial.vision.detectors.noun_presence import PresenceTable, read_table
from captrial.vision.detectors.region_detector import SHIPPED

NOUN_ODDS = "noun_odds"  # of `Sample.extra`: log-odds of nouns, from a detector that tells them


@dataclass(frozen=True)
class CalibratedPresence:
    """Nouns by the log-odds that people mention them; a noun that the detector has not learnt is not checkable."""

    odds: Mapping[str, float]
    table: PresenceTable

    @property
    def threshold(self) -> float:
        """The probability of absence from which on a noun is *not in the image*."""
        return self.table.threshold

    def absent(self, noun: str) -> float | None:
        """The probability that a noun which a captioner said is not in the image."""
        known = [self.odds[name] for name in learnt_names(noun, self.table.nouns)]
        if not known:
            return None
        return 1 / (1 + math.exp(self.table.slope * max(known) - self.table.offset))


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


def presence_of(grounder: Grounder, labels: list[str], odds: Mapping[str, float] | None) -> Presence:
    """What tells whether nouns are in an image with regions of these labels."""
    if odds is None:
        return LabelPresence(grounder, labels)
    return CalibratedPresence(odds, shipped_table())


def image_presence(grounder: Grounder, sample: Sample) -> Presence:
    """The same for a sample with regions."""
    odds: Any = sample.extra.get(NOUN_ODDS)
    return presence_of(grounder, [region.label for region in sample.regions if region.label], odds)


@cache
def shipped_table() -> PresenceTable:
    """The table of the shipped detector."""
    return read_table(SHIPPED)


def error_rates(method: str = DEFAULT_METHOD) -> dict[str, float]:
    """The error rate of every verdict with the shipped detector, measured with an attribution method.

    Rates were measured with attention and with integrated gradients; other methods get those of integrated gradients.
    """
    measured = (shipped_table().measured or {}).get("verdicts", {})
    rates = measured.get(method, measured.get(DEFAULT_METHOD, {}))
    return {verdict: float(entry["error"]) for verdict, entry in rates.items()}


def error_note(method: str = DEFAULT_METHOD) -> str:
    """The rates as one line below tables and pages."""
    rates = error_rates(method)
    shown = ", ".join(f"{verdict} {rate:.0%}" for verdict, rate in rates.items() if verdict in set(Verdict))
    return f"measured on test photographs, these verdicts are wrong: {shown} (docs/ground.md)"
