"""Equal to captum, word by word, for all architectures: `python -m benchmarks.parity.attribution` prints a table."""

from __future__ import annotations

import pytest

from captrial.captioners import ARCHITECTURES

pytest.importorskip("captum", reason="captum is in the dev extra")

from benchmarks.parity.attribution import METHODS, differences


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_words_equal_captum(architecture: str) -> None:
    found = differences(architecture)
    assert set(found) == set(METHODS)
    for method, difference in found.items():
        assert difference < 1e-8, method
