"""Two captioners compared over images and seeds: the difference, its interval, and the verdict on a claim.

An interval covers both what other images and what other seeds would give. With fewer than three seeds on either side a
claim stays undecided, whatever the images say: runs of one command have differed by three points of CIDEr
(docs/flickr8k.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

SEEDS = 3  # that either side needs for a verdict
LEVEL = 0.95
VERDICTS = {True: "holds", False: "does not hold", None: "undecided here"}
CLAIM_COLUMNS = ("paper", "claim", "verdict", "difference", "95% interval", "seeds", "in the paper")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The mean difference of two captioners, with what it rests on."""

    value: float
    low: float
    high: float
    seeds: tuple[int, int]
    limit: float = 0.0  # what the difference must exceed for the claim to hold

    @property
    def verdict(self) -> bool | None:
        """Whether the difference exceeds the limit; None where seeds or images do not decide it."""
        if min(self.seeds) < SEEDS or self.low <= self.limit <= self.high:
            return None
        return self.low > self.limit


def compare_runs(first: Array, second: Array, level: float = LEVEL) -> Difference:
    """The difference of two captioners from scores by seed and image, (seeds, images) each, on the same images.

    Three independent parts make its variance: the images (of the difference of the means over seeds) and the seeds of
    either side. Degrees of freedom are Welch's and Satterthwaite's. One seed does not show the spread of seeds: the
    interval then is that of the images alone, and `verdict` is None.
    """
    scored = ~(np.isnan(first).all(0) | np.isnan(second).all(0))  # a caption without nouns has no GroundingScore
    first, second = first[:, scored], second[:, scored]
    difference = np.nanmean(first, 0) - np.nanmean(second, 0)  # (images,)
    parts = [(difference.var(ddof=1) / len(difference), len(difference) - 1)]
    parts += [_over_seeds(side) for side in (first, second) if len(side) > 1]
    return _difference(float(difference.mean()), parts, (len(first), len(second)), level)


def compare_sets(first: Array, second: Array, margin: float = 0.0, level: float = LEVEL) -> Difference:
    """One captioner on two sets of images, (seeds, images) and (seeds, others) of the same seeds in the same order.

    The claim is that the first is not lower by more than `margin`. The parts of the variance are the images of either
    set and the seeds (of the difference of the two means).
    """
    means = [np.nanmean(side[:, ~np.isnan(side).all(0)], 0) for side in (first, second)]
    parts = [(mean.var(ddof=1) / len(mean), len(mean) - 1) for mean in means]
    if len(first) > 1:
        parts.append(_over_seeds((np.nanmean(first, 1) - np.nanmean(second, 1))[:, None]))
    value = float(means[0].mean() - means[1].mean())
    return _difference(value, parts, (len(first), len(second)), level, -margin)


def _over_seeds(scores: Array) -> tuple[float, int]:
    """The variance of the mean over seeds, and its degrees of freedom, from scores (seeds, images)."""
    return float(np.nanmean(scores, 1).var(ddof=1)) / len(scores), len(scores) - 1


def _difference(
    value: float, parts: Sequence[tuple[float, int]], seeds: tuple[int, int], level: float, limit: float = 0.0
) -> Difference:
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts) if variance else math.inf
    half = float(student.ppf((1 + level) / 2, freedom)) * math.sqrt(variance)
    return Difference(value, value - half, value + half, seeds, limit)


def claim_row(paper: str, text: str, found: Difference | None, metric: tuple[str, float, int], printed: str) -> str:
    """A claim as a line of a Markdown table with `CLAIM_COLUMNS`; `metric` is its title, factor and decimals."""
    if found is None:
        return f"| {paper} | {text} | {VERDICTS[None]}: not trained yet | | | | {printed} |"
    title, factor, decimals = metric
    value, low, high = (f"{factor * number:.{decimals}f}" for number in (found.value, found.low, found.high))
    why = f": fewer than {SEEDS} seeds" if min(found.seeds) < SEEDS else ""
    interval = f"{low} to {high}{' (images alone)' if min(found.seeds) < 2 else ''}"
    shown = f"{title} {value} | {interval} | {found.seeds[0]}, {found.seeds[1]}"
    return f"| {paper} | {text} | {VERDICTS[found.verdict]}{why} | {shown} | {printed} |"
