"""Claims of the papers, checked by intervals: a claim holds, does not hold, or is undecided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.grounding.tables import estimate
from captrial.metrics.significance.bootstrap import percentile_bounds

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PaperClaim:
    """A claim of the paper about an experiment, and whether it holds here; None: undecided."""

    text: str
    holds: bool | None
    seen: str  # the numbers behind it

    @classmethod
    def decided(cls, text: str, holds: bool | None, seen: str) -> PaperClaim:
        """A claim with the numbers behind it, which say so where it is undecided."""
        return cls(text, holds, f"{seen}{'; undecided' if holds is None else ''}")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PaperClaim:
        """The result of `asdict`."""
        holds = document["holds"]
        if holds not in (None, True, False):
            raise ValueError(f"a claim that holds: {holds!r}")
        return cls(str(document["text"]), holds, str(document["seen"]))

    @property
    def mark(self) -> str:
        """✓ holds, ✗ does not hold, ? undecided here."""
        return "?" if self.holds is None else "✓" if self.holds else "✗"


def beyond(low: float, high: float, limit: float = 0.0) -> bool | None:
    """Whether a value with this interval exceeds `limit`: yes, no (it is below), or None, undecided.

    >>> beyond(0.1, 0.3), beyond(-0.3, -0.1), beyond(-0.1, 0.3), beyond(float("nan"), float("nan"))
    (True, False, None, None)
    """
    return True if low > limit else False if high < limit else None


def all_hold(parts: Iterable[bool | None]) -> bool | None:
    """Whether all parts of a claim hold: no if one does not, undecided if one is and none fails.

    >>> all_hold([True, True]), all_hold([True, None, False]), all_hold([True, None])
    (True, False, None)
    """
    found = list(parts)
    return False if False in found else None if None in found else True


def agreement_bounds(observed: float, drawn: Floats) -> tuple[float, float]:
    """Lower and upper bound of a rank correlation from resamples (n,).

    Resampling adds noise, so correlations of resamples lie below the observed one: the upper bound is reflected at it.
    """
    low, high = percentile_bounds(drawn[~np.isnan(drawn)])
    return float(low), float(min(1.0, max(high, 2 * observed - low)))


def paired_claim(text: str, first: Floats, second: Floats, groups: Sequence[object], seed: int = 0) -> PaperClaim:
    """The claim that `first` is larger than `second` on average, fractions by caption (n,), NaN where there is none.

    It holds if the paired 95% interval of the difference lies above 0, does not if it lies below, and is undecided
    otherwise. `groups` (n,) are the images, or sequences of robot frames, that are resampled together.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    kept = [group for group, there in zip(groups, both, strict=True) if there]
    (found,) = estimate(kept, (first - second)[both, None], seed=seed)
    if found.value is None or found.low is None or found.high is None:
        return PaperClaim(text, None, "undecided: too few images")
    means = f"{100 * first[both].mean():.1f} against {100 * second[both].mean():.1f}"
    limits = f"difference {100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return PaperClaim.decided(text, beyond(found.low, found.high), f"{means}, {limits}")


def unpaired_claim(
    text: str,
    first: tuple[Floats, Sequence[object]],
    second: tuple[Floats, Sequence[object]],
    margin: float,
) -> PaperClaim:
    """The claim that `first`, on other images than `second`, is not lower by more than `margin`; each with groups."""
    parts = []
    for number, (values, groups) in enumerate((first, second)):
        there = ~np.isnan(values)
        kept = [group for group, good in zip(groups, there, strict=True) if good]
        (found,) = estimate(kept, values[there, None], seed=number)
        parts.append(found)
    one, other = parts
    if one.value is None or other.value is None or one.low is None or other.low is None:
        return PaperClaim(text, None, "undecided: too few images")
    assert one.high is not None
    assert other.high is not None
    difference = one.value - other.value
    half = float(np.hypot((one.high - one.low) / 2, (other.high - other.low) / 2))  # independent images
    limits = f"difference {100 * difference:.1f} [{100 * (difference - half):.1f}, {100 * (difference + half):.1f}]"
    seen = f"{100 * one.value:.1f} against {100 * other.value:.1f}, {limits}, margin {100 * margin:.1f}"
    return PaperClaim.decided(text, beyond(difference - half, difference + half, -margin), seen)
