"""What D is made of: the annotations (Wan 2022 Table 2), the classes of its images, and who was right on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captrial.compete.ranking.evidence import Evidence
from captrial.compete.ranking.pair_scores import Jury

_RIGHT_QUANTILE = 0.25  # a caption is right if it scores like the better three quarters of people's own sentences


@dataclass(frozen=True, slots=True)
class AnnotationStatistics:
    """Wan 2022 Table 2: sentences an image, and words (tokens) a sentence."""

    images: int
    refs: float
    words: float
    max_refs: int
    min_refs: int
    max_words: int
    min_words: int


class Threshold(NamedTuple):
    """From which score on a caption counts as right, and what score that is."""

    value: float
    what: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """On how many labelled images of D_ij both models, one, or neither was right (Wan 2022 section 3.2)."""

    models: tuple[str, str]
    both: int
    first: int
    second: int
    neither: int


def annotation_statistics(references: Sequence[Sequence[str]]) -> AnnotationStatistics | None:
    """Statistics of tokenised references; None where there are none."""
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


def right_threshold(jury: Jury, metric: str) -> Threshold:
    """What people's own sentences score; where no image has two references, what the models do."""
    people = jury.people(metric)
    people = people[~np.isnan(people)]
    if len(people):
        return Threshold(float(np.quantile(people, _RIGHT_QUANTILE)), "the lower quartile of people's own sentences")
    everything = np.concatenate([pair.per_image.ravel() for pair in jury.evidence(metric).pairs])
    known = everything[~np.isnan(everything)]
    return Threshold(float(np.median(known)) if len(known) else 0.0, "the median of all models' captions")


def outcomes(evidence: Evidence, threshold: float) -> list[Outcome]:
    """Who was right on the images of each D_ij."""
    found = []
    for pair in evidence.pairs:
        first, second = (pair.per_image >= threshold).T
        names = evidence.models[pair.models[0]], evidence.models[pair.models[1]]
        counts = ((first & second), (first & ~second), (~first & second), (~first & ~second))
        found.append(Outcome(names, *(int(which.sum()) for which in counts)))
    return found
