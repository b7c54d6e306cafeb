"""Null models of grounding: the same computation with a region that does not depend on what the captioner looked at.

| null | the top region of every word |
| --- | --- |
| `random` | any region of the image, drawn again for every word; mean of several draws |
| `largest` | the region with the largest area |
| `centre` | the region whose middle is nearest to the middle of the image |
| `prior` | the region whose label fits the nouns of all captions best: it knows the labels, an attribution does not |

*Skill* is (score - null) / (100 - null) with scores x100: 0 is the null, 1 a captioner whose every noun is grounded.
Its interval resamples images (sequences of a robot: whole sequences), score and null together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.grounding.score import Grounder
from captrial.grounding.tables import Estimate
from captrial.metrics.significance.bootstrap import REPLICATES, interval, resamples
from captrial.records import Region
from captrial.vision.boxes import areas, relative_boxes

Floats = NDArray[np.float64]
DRAWS = 8  # of a random region for every word
NULLS = {
    "random": "a random region for every word",
    "largest": "the largest region",
    "centre": "the region nearest to the middle",
    "prior": "the region whose label fits the nouns of these captions best",
}


@dataclass(frozen=True)
class LabelPrior:
    """How well labels fit the nouns of captions, by label: the mean similarity to a noun that was said."""

    values: Mapping[str, float]

    @classmethod
    def of(cls, nouns: Sequence[str], grounder: Grounder) -> LabelPrior:
        """From the nouns of many captions and the label set of a grounder."""
        counted = Counter(nouns)
        if not counted or not grounder.labels:
            return cls({})
        similar = np.asarray(grounder.similarity.matrix(list(counted), grounder.labels), np.float64)
        weights = np.array(list(counted.values()), np.float64)
        return cls(dict(zip(grounder.labels, (weights @ similar / weights.sum()).tolist(), strict=True)))

    def best(self, labels: Sequence[str]) -> int:
        """The label that fits best; the first of equals."""
        return int(np.argmax([self.values.get(label, -1.0) for label in labels]))


def null_labels(
    regions: Sequence[Region], size: tuple[int, int], words: int, prior: LabelPrior, seed: int = 0
) -> dict[str, list[list[str]]]:
    """By null, the labels that every word would have: (draws, words); regions are those a top region is chosen from."""
    labels = [str(region.label) for region in regions]
    boxes = relative_boxes(regions, size)
    middle = np.abs((boxes[:, :2] + boxes[:, 2:]) / 2 - 0.5).sum(1)
    drawn = np.random.default_rng(seed).integers(len(labels), size=(DRAWS, words))
    fixed = {"largest": int(areas(boxes).argmax()), "centre": int(middle.argmin()), "prior": prior.best(labels)}
    return {
        "random": [[labels[place] for place in row] for row in drawn],
        **{name: [[labels[place]] * words] for name, place in fixed.items()},
    }


def skill(scores: Floats, null: Floats, groups: Sequence[object], *, seed: int = 0) -> Estimate:
    """Skill of scores (n,) of captions over those of a null (n,), both fractions; NaN where a caption has none.

    `groups` (n,) are the images (or sequences) that are resampled.
    """
    defined = ~(np.isnan(scores) | np.isnan(null))
    if not defined.any():
        return Estimate(None, None, None, 0)
    _, rows = np.unique(np.asarray(groups, dtype=str)[defined], return_inverse=True)
    sums = np.zeros((int(rows.max()) + 1, 3))
    np.add.at(sums, rows, np.stack([scores[defined], null[defined], np.ones(defined.sum())], 1))
    value = float(_skill(sums.sum(0)))
    if len(sums) == 1:  # an image resampled is the same image
        return Estimate(value, None, None, int(defined.sum()))
    drawn = np.concatenate([_skill(weights @ sums) for weights in resamples(len(sums), REPLICATES, seed)])
    limits = interval(drawn)
    return Estimate(value, limits.low, limits.high, int(defined.sum()))


def _skill(sums: Floats) -> Floats:
    """From sums (..., 3) of scores, of the null and of captions; 0 where the null is perfect."""
    possible = sums[..., 2] - sums[..., 1]
    return np.asarray((sums[..., 0] - sums[..., 1]) / np.where(possible > 1e-12, possible, np.inf))
