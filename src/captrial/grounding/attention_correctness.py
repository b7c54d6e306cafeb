"""Attention correctness (Liu 2017 Eq. 12-13) and the measures beside it, for maps of any origin.

Maps (words, s, s) sum to 1; `mask` (s, s) is the ground-truth region. All results are (words,) and higher is better.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Reduction = Literal["max", "mean"]
_TINY = 1e-12  # what KL takes for 0: attention that is exactly nowhere would cost infinity


def attention_correctness(maps: Floats, mask: Mask) -> Floats:
    """AC(word), Eq. 12: the share of a map inside the region."""
    return np.asarray(np.clip(maps[:, mask].sum(1), 0, 1))


def pointing_game(maps: Floats, mask: Mask) -> Floats:
    """Whether the highest point lies in the region; where several are highest, the share of them that does."""
    highest = np.isclose(maps, maps.max((1, 2), keepdims=True), rtol=1e-9, atol=0)
    return np.asarray((highest & mask).sum((1, 2)) / highest.sum((1, 2)))


def area_under_curve(maps: Floats, mask: Mask) -> Floats:
    """ROC AUC: how often a point of the region is higher than one outside (equal: half); 0.5 for a uniform map."""
    inside, outside = maps[:, mask], np.sort(maps[:, ~mask], axis=1)
    if not inside.shape[1] or not outside.shape[1]:
        return np.full(len(maps), 0.5)
    below = [
        np.searchsorted(row, points, "left").mean() + np.searchsorted(row, points, "right").mean()
        for points, row in zip(inside, outside, strict=True)
    ]
    return np.asarray(np.array(below, np.float64) / (2 * outside.shape[1]))


def distances(maps: Floats, mask: Mask) -> dict[str, Floats]:
    """-L1, -L2 and -KL(beta || alpha) from the target map beta, which is uniform inside the region."""
    target = mask / mask.sum()
    inside = maps[:, mask]
    return {
        "l1": -np.abs(maps - target).sum((1, 2)),
        "l2": -np.sqrt(np.square(maps - target).sum((1, 2))),
        "kl": -np.log((1 / mask.sum()) / np.maximum(inside, _TINY)).mean(1),
    }


@dataclass(frozen=True, slots=True)
class Measures:
    """What a phrase's map is worth."""

    correctness: float
    pointing: float
    auc: float
    l1: float
    l2: float
    kl: float

    def to_dict(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


def measure_phrase(maps: Floats, mask: Mask, reduction: Reduction = "max") -> Measures:
    """The measures of a phrase from the maps of its words (words, s, s).

    AC(phrase) is the maximum over its words (Eq. 13), so that "of" in "a group of people" does not count; the other
    measures are those of that word's map. With "mean" all are those of the mean map, whose AC is the words' mean.
    """
    scores = attention_correctness(maps, mask)
    chosen = maps[[int(scores.argmax())]] if reduction == "max" else maps.mean(0, keepdims=True)
    found = {name: float(value[0]) for name, value in distances(chosen, mask).items()}
    correctness = float(scores.max() if reduction == "max" else scores.mean())
    return Measures(
        correctness, float(pointing_game(chosen, mask)[0]), float(area_under_curve(chosen, mask)[0]), **found
    )
