"""Soft precision and recall between a caption and its references, each given as the unit vectors of its parts.

A part of the caption is supported by the most similar part of any reference, a part of a reference is covered by the
most similar part of the caption:

    precision = sum_u w_u max_r cos(u, r) / sum_u w_u         over parts u of the caption, r of all references
    recall    = the same over the parts of a reference, against the caption; mean over the references
    F         = their harmonic mean

Parts are sentences, tokens or propositions; weights are their words (a sentence that has just begun counts little, so
that scores do not jump as a caption grows). Cosines below 0 count as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.semantic.sentence_encoder import Floats


@dataclass(frozen=True)
class Parts:
    """The parts of one text: unit vectors (p, d) and weights (p,)."""

    vectors: Floats
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        """The number of parts."""
        return len(self.weights)


@dataclass(frozen=True)
class Match:
    """How the parts of a caption and of its references support each other."""

    support: NDArray[np.float64]  # (caption's parts,): similarity to the best part of any reference
    cover: tuple[NDArray[np.float64], ...]  # of each reference (its parts,): similarity to the best part of the caption
    precision: float
    recall: float

    @property
    def f(self) -> float:
        """The harmonic mean; 0 where either is."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def soft_match(caption: Parts, references: Sequence[Parts]) -> Match:
    """Match one caption; a caption without parts scores 0, references without any part give NaN."""
    filled = [reference for reference in references if len(reference)]
    if not filled:
        nothing = tuple(np.zeros(0) for _ in references)
        return Match(np.full(len(caption), np.nan), nothing, float("nan"), float("nan"))
    if not len(caption):
        return Match(np.zeros(0), tuple(np.zeros(len(reference)) for reference in references), 0.0, 0.0)
    cosines = [_cosines(caption, reference) for reference in references]
    support = np.concatenate(cosines, axis=1).max(axis=1)
    cover = tuple(cosine.max(axis=0) for cosine in cosines)
    recalls = [
        float(np.average(of, weights=reference.weights))
        for of, reference in zip(cover, references, strict=True)
        if len(reference)
    ]
    return Match(support, cover, float(np.average(support, weights=caption.weights)), float(np.mean(recalls)))


def match_columns(matches: Sequence[Match], name: str) -> dict[str, NDArray[np.float64]]:
    """F, precision and recall (n,) as the columns of a metric."""
    rows = np.array([(match.f, match.precision, match.recall) for match in matches]).reshape(-1, 3).T
    return dict(zip((name, f"{name}_precision", f"{name}_recall"), rows, strict=True))


def grouped(parts: Sequence[Parts], counts: Sequence[int]) -> Iterator[list[Parts]]:
    """Cut a flat sequence of parts into runs of these lengths."""
    rest = iter(parts)
    for count in counts:
        yield [next(rest) for _ in range(count)]


def _cosines(caption: Parts, reference: Parts) -> NDArray[np.float64]:
    """(parts of the caption, parts of the reference)."""
    if not len(reference):
        return np.zeros((len(caption), 0))
    return (caption.vectors @ reference.vectors.T).clip(0, 1).astype(np.float64)
