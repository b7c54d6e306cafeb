"""Two scene graphs -> how many tuples agree, over all and by category."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.spice.graph import Concept, SceneGraph, Tuples, Vocabulary
from captrial.metrics.spice.wordlists import COLORS, COUNTS, SIZES

GraphTuple = tuple[Concept, ...]


def _attribute_in(words: frozenset[str]) -> Callable[[GraphTuple], bool]:
    """An attribute merged from several strings is in no list, as in the original ("red/scarlet" is no colour)."""
    return lambda item: len(item) == 2 and len(item[1].strings) == 1 and not words.isdisjoint(item[1].strings)


CATEGORIES: dict[str, Callable[[GraphTuple], bool]] = {
    "all": lambda _: True,
    "object": lambda item: len(item) == 1,
    "attribute": lambda item: len(item) == 2,
    "relation": lambda item: len(item) == 3,
    "color": _attribute_in(COLORS),
    "count": _attribute_in(COUNTS),
    "size": _attribute_in(SIZES),
}
"""SPICE and its sub-scores, in the order of the columns of `Counts`."""

Counts = NDArray[np.int64]
"""Per category: matched candidate tuples, candidate tuples, reference tuples; shape (7, 3), or (images, 7, 3)."""


def tuple_counts(candidate: Tuples, references: Sequence[Tuples], vocabulary: Vocabulary) -> Counts:
    """Counts of one picture, shape (7, 3): the candidate's tuples against those of all references in one graph."""
    ours, theirs = SceneGraph(vocabulary), SceneGraph(vocabulary)
    ours.add(candidate)
    for tuples in references:
        theirs.add(tuples)
    return _count(ours.tuples(), theirs.tuples())


def f_scores(counts: Counts) -> NDArray[np.float64]:
    """F of counts (..., 7, 3) -> (..., 7): clipped to 1; sub-scores without reference tuples are NaN, SPICE is 0."""
    matched, ours, theirs = np.moveaxis(counts.astype(np.float64), -1, 0)
    # 2pr/(p+r), p = matched/ours, r = matched/theirs; candidate tuples may share a reference tuple, hence the clip.
    f = np.minimum(2 * matched / np.maximum(ours + theirs, 1), 1.0)
    f[..., 1:][theirs[..., 1:] == 0] = np.nan
    return np.asarray(f)


def _count(ours: list[GraphTuple], theirs: list[GraphTuple]) -> Counts:
    counts = np.zeros((len(CATEGORIES), 3), dtype=np.int64)
    for row, member in zip(counts, CATEGORIES.values(), strict=True):
        candidates, references = list(filter(member, ours)), list(filter(member, theirs))
        row[:] = sum(_matches(item, references) for item in candidates), len(candidates), len(references)
    return counts


def _matches(item: GraphTuple, references: list[GraphTuple]) -> bool:
    """Whether a reference tuple of the same length has pairwise similar parts (one may serve several candidates)."""
    return any(
        len(item) == len(other) and all(mine.similar(yours) for mine, yours in zip(item, other, strict=True))
        for other in references
    )
