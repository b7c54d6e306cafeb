"""SPICE as a metric: counts an image, which merge, and their F scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores
from captrial.metrics.spice.graph import Tuples, Vocabulary
from captrial.metrics.spice.match import CATEGORIES, Counts, f_scores, tuple_counts
from captrial.metrics.spice.tuples import scene_tuples
from captrial.metrics.wordnet import default_wordnet

NAMES = ("spice", *(f"spice_{name}" for name in list(CATEGORIES)[1:]))


@dataclass(frozen=True)
class SpiceState(MeanState):
    """SPICE and its sub-scores of some images; a sub-score is NaN where the references have no such tuple."""

    @classmethod
    def of(cls, corpus: Corpus, *, synonyms: bool = True) -> Self:
        """Parse (or look up) all texts and score every image."""
        return cls.from_counts(spice_counts(corpus.candidates, corpus.references, synonyms=synonyms))

    @classmethod
    def from_counts(cls, counts: Counts) -> Self:
        """From `spice_counts`, shape (n, 7, 3)."""
        return cls(dict(zip(NAMES, np.ascontiguousarray(f_scores(counts).T), strict=True)))


def spice(candidates: Candidates | Corpus, references: References | None = None, *, synonyms: bool = True) -> Scores:
    """SPICE 1.0 with spaCy's parser: F over scene-graph tuples, and by kind of tuple.

    `synonyms=False` matches and merges by equal strings only (the original's `-noSynsets`).
    """
    return SpiceState.of(Corpus.prepare(candidates, references), synonyms=synonyms).scores()


def spice_counts(candidates: Sequence[str], references: Sequence[Sequence[str]], *, synonyms: bool = True) -> Counts:
    """Matched, candidate and reference tuples of each image and category; shape (n, 7, 3). Texts are tokenised."""
    ends = np.cumsum([0, *map(len, references)])
    tuples = scene_tuples([*candidates, *chain.from_iterable(references)])
    ours, theirs = tuples[: len(candidates)], tuples[len(candidates) :]
    grouped = [theirs[start:end] for start, end in pairwise(ends)]
    return counts_of_tuples(ours, grouped, synonyms=synonyms)


def counts_of_tuples(
    candidates: Sequence[Tuples], references: Sequence[Sequence[Tuples]], *, synonyms: bool = True
) -> Counts:
    """Counts (n, 7, 3) from given tuples: everything of SPICE but the parser."""
    vocabulary = Vocabulary(default_wordnet() if synonyms else None)
    rows = [tuple_counts(ours, theirs, vocabulary) for ours, theirs in zip(candidates, references, strict=True)]
    return np.stack(rows) if rows else np.zeros((0, len(CATEGORIES), 3), dtype=np.int64)
