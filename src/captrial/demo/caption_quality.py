"""How good the demonstration's captioners are: everything in a rendered image is known, so captions can be checked.

CIDEr against the image's true captions, and the share of mentioned objects that are in the image, both over all wild
images. The null: the same captions, each given to another image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.language.tokenizer import tokenize_all
from captrial.metrics.ngram.cider import cider
from captrial.metrics.significance.bootstrap import REPLICATES, percentile_bounds, resamples
from captrial.records import Sample
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES, plural

SHIFTS = 20  # pairings of captions with other images


@dataclass(frozen=True)
class CaptionQuality:
    """One captioner's captions of all wild images; shares in [0, 1]."""

    captioner: str
    cider: float
    there: float | None  # of the objects that captions mention, the share that is in the image; None: none mentioned
    low: float | None  # 95%, images resampled
    high: float | None
    by_chance: float | None  # the same share where captions are of other images
    right: float  # captions that mention an object, and none that is not there


def caption_quality(name: str, captions: Mapping[str, str], samples: Sequence[Sample], seed: int = 0) -> CaptionQuality:
    """Check captions, by id of the sample."""
    texts = [captions[sample.id] for sample in samples]
    mentioned = [mentioned_classes(words.split()) for words in tokenize_all(texts)]
    there = [classes_of(sample) for sample in samples]
    hits = np.array([[_hits(own, there[image]), len(own)] for image, own in enumerate(mentioned)], dtype=np.float64)
    totals = np.concatenate([weights @ hits for weights in resamples(len(samples), REPLICATES, seed)])
    spread = totals[totals[:, 1] > 0]  # an image without a mention of an object has no share
    low, high = percentile_bounds(spread[:, 0] / spread[:, 1]) if len(spread) else (None, None)
    shifts = 1 + np.random.default_rng(seed).integers(len(samples) - 1, size=SHIFTS)
    chance = [_hits_of_others(mentioned, there, int(shift)) for shift in shifts]
    others = [value for value in chance if value is not None]
    return CaptionQuality(
        name,
        cider(texts, [sample.captions for sample in samples]).corpus,
        _share(hits),
        None if low is None else float(low),
        None if high is None else float(high),
        float(np.mean(others)) if others else None,
        float(np.mean((hits[:, 1] > 0) & (hits[:, 0] == hits[:, 1]))),
    )


def mentioned_classes(words: Sequence[str]) -> list[frozenset[str]]:
    """For every noun of an object, the classes that it may mean ("kid" is a person)."""
    return [NOUNS[word] for word in words if word in NOUNS]


def classes_of(sample: Sample) -> frozenset[str]:
    """The classes of the visible objects of a rendered image."""
    return frozenset(str(region.label) for region in sample.regions)


def _nouns() -> dict[str, frozenset[str]]:
    """Every noun of an object, and its plural, with its classes: *men* is a person."""
    found: dict[str, set[str]] = {}
    for name, entry in OBJECT_CLASSES.items():
        for noun in entry.vocabulary:
            for form in (noun, plural(noun)):
                found.setdefault(form, set()).add(name)
    return {noun: frozenset(names) for noun, names in found.items()}


NOUNS = _nouns()


def _hits(mentioned: Sequence[frozenset[str]], there: frozenset[str]) -> int:
    return sum(not classes.isdisjoint(there) for classes in mentioned)


def _hits_of_others(
    mentioned: Sequence[Sequence[frozenset[str]]], there: Sequence[frozenset[str]], shift: int
) -> float | None:
    """The share where every caption belongs to the image `shift` places further."""
    count = len(there)
    return _share(np.array([[_hits(own, there[(at + shift) % count]), len(own)] for at, own in enumerate(mentioned)]))


def _share(hits: NDArray[Any]) -> float | None:
    found, mentioned = hits.sum(0)
    return float(found / mentioned) if mentioned else None
