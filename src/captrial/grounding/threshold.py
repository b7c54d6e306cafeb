"""tau_g, calibrated on the toy world: which similarity of a noun and a class means that one names the other.

Right pairs are the toy world's words for a kind and that kind; wrong ones are the same words with the other kinds, and
its place words with every kind. tau_g is the middle of the thresholds that have the best F1: where the table of words
decides alone, right pairs are 1 and the threshold stands clear of the wrong ones.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from captrial.language.similarity import Similarity
from captrial.language.vectors import linking_curve
from captrial.toyworld import OBJECT_CLASSES, SCENES, SYNONYMS


@lru_cache(maxsize=16)
def grounding_threshold(similarity: Similarity) -> float:
    """tau_g for a similarity."""
    words, truth = _pairs()
    curve = linking_curve(similarity.matrix(words, list(OBJECT_CLASSES)), truth)
    best = max(linking.f1 for linking in curve)
    return round(float(np.mean([linking.threshold for linking in curve if linking.f1 == best])), 3)


def _pairs() -> tuple[list[str], np.ndarray]:
    """The toy world's words, and which kinds each may name (words, kinds)."""
    from captrial.language.class_words import default_table

    places = [word for words in SCENES.values() for word in words]
    words = sorted({word for kind in OBJECT_CLASSES for word in (kind, *SYNONYMS.get(kind, ()))} | set(places))
    table = default_table()
    truth = [
        [word == kind or word in SYNONYMS.get(kind, ()) or table.means(word, kind) for kind in OBJECT_CLASSES]
        for word in words
    ]
    return words, np.array(truth)
