"""What the labels say about every pair of models, as sums: the common ground of ranking, bootstrap, flips and planning.

The metric of model i on D_ij is a function of sums over images (see `captrial.metrics.scores.State`), so dropping,
repeating or weighting images is arithmetic on those sums; nothing is scored twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PairEvidence:
    """The labelled images of one D_ij in the order of selection, and what each adds to both models' scores."""

    models: tuple[int, int]  # i < j
    images: Ints  # (n,) indices into `Evidence.images`
    statistics: Floats  # (n, 2, s) additive statistics of models i and j
    per_image: Floats  # (n, 2) the metric of the single image; NaN where it does not speak
    wanted: int  # images that D_ij should have


@dataclass(frozen=True)
class Evidence:
    """All pairs of a competition under one metric.

    `value` turns sums of statistics (..., s) into the metric (...), already mapped to be non-negative.
    """

    metric: str
    models: tuple[str, ...]
    images: tuple[str, ...]  # labelled images of all pairs, sorted
    pairs: tuple[PairEvidence, ...]
    value: Callable[[Floats], Floats]

    @cached_property
    def contributions(self) -> Floats:
        """(images, pairs, 2, s): what each image adds to each pair; 0 where it is not in D_ij."""
        width = max((pair.statistics.shape[2] for pair in self.pairs), default=1)
        table = np.zeros((len(self.images), len(self.pairs), 2, width))
        for index, pair in enumerate(self.pairs):
            table[pair.images, index] = pair.statistics
        return table

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """(images, pairs): whether the image is in D_ij."""
        table = np.zeros((len(self.images), len(self.pairs)), np.bool_)
        for index, pair in enumerate(self.pairs):
            table[pair.images, index] = True
        return table

    @cached_property
    def labelled(self) -> Ints:
        """(pairs,) how many images of each D_ij have labels."""
        return np.array([len(pair.images) for pair in self.pairs], np.int64)

    def scores(self, weights: Floats | None = None) -> Floats:
        """p (m, m), or (replicates, m, m) for weights (replicates, images); NaN on the diagonal and without labels."""
        totals = np.empty((*(() if weights is None else weights.shape[:1]), *self.contributions.shape[1:]))
        for index, pair in enumerate(self.pairs):
            chosen = np.ones(len(pair.images)) if weights is None else weights[:, pair.images]
            totals[..., index, :, :] = np.tensordot(chosen, pair.statistics, axes=1)
        return self.scores_of_totals(totals, self.labelled)

    def scores_of_totals(self, totals: Floats, counts: Ints) -> Floats:
        """p (..., m, m) from sums (..., pairs, 2, s) over so many images (..., pairs)."""
        some = counts[..., None] > 0  # (..., pairs, 1); a metric need not know what to do with no images
        values = np.where(some, self.value(np.where(some[..., None], totals, 1.0)), np.nan)  # (..., pairs, 2)
        p = np.full((*values.shape[:-2], len(self.models), len(self.models)), np.nan)
        first, second = self._places
        p[..., first, second], p[..., second, first] = values[..., 0], values[..., 1]
        return p

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        places = np.array([pair.models for pair in self.pairs], np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]
