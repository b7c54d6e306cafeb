"""How the scores of visual elements become one score a region: named rules, one of which chooses the top region.

    rule = region_rule("area")
    scores = rule.prepare(scores)       (words, elements) -> the same: what is compared
    rule.score(scores, shares)          (words, elements), (regions, elements) -> (words, regions)

`shares` is the area that every region has in common with every element, in areas of an (average) element. How the
default was chosen, and what each half of two data sets says of it, is in docs/ground_measured.md
(`studies.region_rules`). A new rule is an entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError

Floats = NDArray[np.float64]
Scorer = Callable[[Floats, Floats], Floats]
TINY = 1e-300


@dataclass(frozen=True)
class RegionRule:
    """A rule with its title and description, for help texts and tables."""

    name: str
    title: str
    description: str
    score: Scorer
    prepare: Callable[[Floats], Floats] = lambda scores: scores  # also where the elements themselves are the regions
    by_iou: Scorer | None = None  # in the place of `score` where elements are regions: of IoUs in the place of shares
    by_certainty: bool = False  # whether the score of a region is multiplied by that of its detector


def _divided(power: float) -> Scorer:
    """The sum inside a region, divided by a power of the region's area."""
    return lambda scores, shares: scores @ (shares / np.maximum(shares.sum(1, keepdims=True), TINY) ** power).T


def _peak(scores: Floats, shares: Floats) -> Floats:
    """Regions in which the highest element lies for the most part, the smallest first; else the largest share of it."""
    held = shares[:, scores.argmax(1)].T  # (words, regions): the share of the peak element
    size = np.maximum(shares.sum(1), TINY)
    return np.asarray(np.where(held >= 0.5, 1 + size.min(initial=1.0) / size, held))


def _contrast(scores: Floats) -> Floats:
    """What each word has more than the caption's other words have on average."""
    normed = scores / np.maximum(scores.sum(1, keepdims=True), TINY)
    others = (normed.sum(0, keepdims=True) - normed) / max(len(normed) - 1, 1)
    return np.asarray(np.clip(normed - others, 0, None))


AREA_POWER = 0.75
_ENTRIES = (
    RegionRule("mean", "Mean in box", "the mean inside the region (Cornia 2022, Eq. 13)", _divided(1.0)),
    RegionRule("sum", "Sum in box", "the sum inside the region: favours large ones", _divided(0.0)),
    RegionRule("area", "Sum by area", f"the sum divided by the area to the power {AREA_POWER}", _divided(AREA_POWER)),
    RegionRule("peak", "Smallest with peak", "the smallest region that holds the highest element", _peak),
    RegionRule(
        "contrast",
        "Contrast",
        "the rule area on what the caption's other words have less of",
        _divided(AREA_POWER),
        _contrast,
    ),
    RegionRule(
        "certain",
        "Certain",
        "the rule area times the detector's score of the region; where elements are regions, the sum of all by their "
        "squared IoU with the region, times its score",
        _divided(AREA_POWER),
        by_iou=lambda scores, ious: scores @ (ious**2).T,
        by_certainty=True,
    ),
)
REGION_RULES = {rule.name: rule for rule in _ENTRIES}
DEFAULT_RULE = "area"


def region_rule(name: str) -> RegionRule:
    """The rule of that name; an `InputError` that lists the rules if there is none."""
    if name not in REGION_RULES:
        raise InputError(f"no rule {name!r} for the top region; there are: {', '.join(REGION_RULES)}")
    return REGION_RULES[name]
