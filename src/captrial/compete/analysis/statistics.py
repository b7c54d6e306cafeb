"""Statistics of D: its annotations (Wan 2022 Table 2), the classes of its images, and which models were right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores

_RIGHT_QUANTILE = 0.25  # a caption is right if it scores like the better three quarters of human captions


@dataclass(frozen=True, slots=True)
class AnnotationStatistics:
    """Wan 2022 Table 2: reference captions an image (`refs`), and tokens a reference (`words`)."""

    images: int
    refs: float
    words: float
    max_refs: int
    min_refs: int
    max_words: int
    min_words: int


class RightThreshold(NamedTuple):
    """The score from which on a caption counts as right, and how it was determined."""

    value: float
    description: str


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """On how many images of D_ij both models, one, or neither was right (Wan 2022 section 3.2).

    Counts where D_ij is labelled, estimates that add up to its size while it is labelled in part.
    """

    models: tuple[str, str]
    both: float
    first: float
    second: float
    neither: float


def annotation_statistics(references: Sequence[Sequence[str]]) -> AnnotationStatistics | None:
    """Statistics of tokenised references, as they were written (no weights: not about D); None where there are none."""
    sizes = [len(texts) for texts in references]
    lengths = [len(text.split()) for texts in references for text in texts]
    if not lengths:
        return None
    return AnnotationStatistics(
        len(sizes),
        float(np.mean(sizes)),
        float(np.mean(lengths)),
        max(sizes),
        min(sizes),
        max(lengths),
        min(lengths),
    )


def class_distribution(labels: Iterable[str | None]) -> dict[str, int]:
    """How many images each class has (Wan 2022 Fig. 5), largest first; empty where images have no classes."""
    counts = Counter(label for label in labels if label is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def right_threshold(scorer: PairScorer, metric: str) -> RightThreshold:
    """The lower quartile of human captions' scores; the models' median where no image has two references."""
    human = scorer.human_scores(metric)
    human = human[~np.isnan(human)]
    if len(human):
        return RightThreshold(float(np.quantile(human, _RIGHT_QUANTILE)), "the lower quartile of human captions")
    everything = np.concatenate([pair.per_image.ravel() for pair in scorer.score(metric).pairs])
    known = everything[~np.isnan(everything)]
    return RightThreshold(float(np.median(known)) if len(known) else 0.0, "the median of all models' captions")


def pair_outcomes(pairwise: PairwiseScores, threshold: float) -> list[PairOutcome]:
    """Count which models were right on each D_ij.

    A labelled image counts by the inverse of its probability to be labelled, as in `rank_models`, and all of them
    together as the images that D_ij should have.
    """
    found = []
    for pair in pairwise.pairs:
        first, second = (pair.per_image >= threshold).T
        names = pairwise.models[pair.models[0]], pairwise.models[pair.models[1]]
        counts = ((first & second), (first & ~second), (~first & second), (~first & ~second))
        weights = pairwise.pair_weights(pair)
        scale = 1.0 if len(pair.images) == pair.wanted else pair.wanted / max(float(weights.sum()), 1e-300)
        found.append(PairOutcome(names, *(round(scale * float(weights @ which), 6) for which in counts)))
    return found
