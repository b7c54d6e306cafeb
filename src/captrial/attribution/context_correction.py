"""Context correction: what the maps of earlier words already explain is taken out of a word's map.

A decoder that writes a word still holds what it read for the words before it, so maps of earlier words leak into later
ones (Li et al. 2025 see it in activation maps of multimodal language models). Here a word's map is fitted by
a non-negative combination of the maps of the words before it (non-negative least squares), and what is left above the
fit is kept. A word whose map is no other than that of earlier words keeps nothing: ask for it only where words are
expected to look at different places.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import nnls

from captrial.attribution.attribution import Array, Attribution


def without_context(attribution: Attribution) -> Attribution:
    """The same scores without what earlier words explain; signed scores, which that would not suit, are left out."""
    return replace(attribution, scores=remove_context(attribution.scores), signed=None)


def remove_context(scores: Array) -> Array:
    """Non-negative scores (words, elements) with the best fit by earlier words taken from each, where it is lower.

    >>> remove_context(np.array([[2.0, 0.0, 1.0], [1.0, 3.0, 0.5]])).round(6).tolist()
    [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]
    """
    found = np.array(scores, np.float64)
    for word in range(1, len(found)):
        earlier = scores[:word].T.astype(np.float64)  # (elements, words before)
        if earlier.any():
            weights, _ = nnls(earlier, scores[word].astype(np.float64))
            found[word] = np.maximum(scores[word] - earlier @ weights, 0)
    return np.asarray(found.astype(scores.dtype))
