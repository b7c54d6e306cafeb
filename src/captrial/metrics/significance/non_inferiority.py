"""Is a new system worse than the old one by more than a margin? Not worse, worse, or undecided at a stated risk.

d = metric(new) - metric(old) on the same images, turned so that more is better, has a lower and an upper bound, each of
which is wrong with probability `risk`. *Not worse*: the lower bound is at least -margin. *Worse*: the upper bound is
below -margin. Otherwise the images do not decide. The bounds are percentiles over resampled images, moved away from d
as much as Student's t is wider than the normal distribution (Hesterberg 2015, expanded percentiles), and both as far as
the farther one: with few images plain percentiles are too narrow, and differences of CIDEr are skewed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from captrial.errors import InputError
from captrial.metrics.scores import State
from captrial.metrics.significance.bootstrap import image_count, replicate_scores

Verdict = Literal["not worse", "worse", "undecided"]

REPLICATES = 2000
FEWEST_IMAGES = 20  # below which nothing is decided; measured in docs/judges.md


@dataclass(frozen=True)
class GateSettings:
    """What may go wrong, and how often."""

    margin: float = 0.0  # a loss up to this is not worse; in the metric's own unit, a fraction
    risk: float = 0.05  # of a wrong "not worse", and of a wrong "worse"
    replicates: int = REPLICATES
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise InputError(f"a margin of {self.margin}: must be a number from 0 on")
        if not 0 < self.risk < 0.5:
            raise InputError(f"a risk of {self.risk}: must be above 0 and below 0.5")


@dataclass(frozen=True)
class GateResult:
    """The change of one metric from the old system to the new one, with one-sided bounds; positive: the new is better.

    >>> GateResult("cider", 1.0, 1.02, 0.02, -0.005, 0.045, 0.01, 0.05, 500).verdict
    'not worse'
    """

    metric: str
    old: float
    new: float
    difference: float
    low: float
    high: float
    margin: float
    risk: float
    images: int

    @property
    def verdict(self) -> Verdict:
        """Undecided also where a value is undefined."""
        if self.low >= -self.margin:
            return "not worse"
        return "worse" if self.high < -self.margin else "undecided"

    def to_json(self) -> dict[str, object]:
        """Plain values; None where the metric has no value."""
        fields = {name: None if value != value else value for name, value in asdict(self).items()}
        return {"verdict": self.verdict, **fields}


def check_not_worse(
    states: Mapping[str, State],
    column: str,
    settings: GateSettings | None = None,
    better: Literal["higher", "lower"] = "higher",
) -> GateResult:
    """Compare the states `old` and `new` of one metric over the same images, by one of its columns."""
    settings = settings or GateSettings()
    old, new = states["old"], states["new"]
    images = image_count({name: states[name].statistics() for name in ("old", "new")})
    sign = 1.0 if better == "higher" else -1.0
    values = [float(one.corpus_scores(one.statistics().sum(axis=0))[column]) for one in (old, new)]
    difference = sign * (values[1] - values[0])
    if images < FEWEST_IMAGES:
        low = high = math.nan
    else:
        resampled = replicate_scores({"old": old, "new": new}, settings.replicates, settings.seed)
        moved = sign * (resampled["new"][column] - resampled["old"][column])
        low, high = _bounds(moved, difference, settings.risk, images)
    return GateResult(column, values[0], values[1], difference, low, high, settings.margin, settings.risk, images)


def _bounds(moved: NDArray[np.float64], difference: float, risk: float, images: int) -> tuple[float, float]:
    known = moved[~np.isnan(moved)]
    if not len(known) or difference != difference:
        return math.nan, math.nan
    wider = math.sqrt(images / (images - 1)) * float(stdtrit(images - 1, risk) / ndtri(risk))
    reach = wider * float(np.max(np.abs(np.quantile(known, [risk, 1 - risk]) - difference)))
    return difference - reach, difference + reach
