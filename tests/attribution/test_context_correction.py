"""Context correction takes out of a word's map what those of earlier words explain."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.attribution.attribution import Attribution, tile
from captrial.attribution.context_correction import remove_context, without_context


def test_context_correction_moves_maps_to_what_a_word_adds() -> None:
    """A later map that is an earlier one and a little of its own place points at its own place."""
    random = np.random.default_rng(0)
    first, second = 0.2 * random.random((2, 50))
    first[3], second[30] = 1.0, 1.0
    leaked = 0.9 * first + 0.3 * second
    assert leaked.argmax() == 3
    corrected = remove_context(np.stack([first, leaked]))
    assert corrected[0] == pytest.approx(first)
    assert corrected[1].argmax() == 30
    assert (corrected >= 0).all()
    assert remove_context(np.zeros((3, 4))).sum() == 0


def test_an_attribution_loses_its_signs_and_keeps_the_rest() -> None:
    scores = np.array([[1.0, 0.0], [1.0, 1.0]])
    found = without_context(Attribution(("a", "dog"), scores, tile(1, 2), "attention", scores, (1, 2)))
    assert found.scores.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert found.signed is None
    assert found.words == ("a", "dog")
