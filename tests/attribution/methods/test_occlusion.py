"""Occlusion."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from attribution.small_captioners import BlackBox, bright_corner, noise_image
from captrial.attribution.explain import explain
from captrial.attribution.methods.occlusion import occlude
from captrial.errors import InputError


@pytest.fixture
def image() -> Image.Image:
    return noise_image()


def test_occlusion_needs_captions_only() -> None:
    found = occlude(BlackBox(), bright_corner())
    assert found.words == ("two", "dogs", "run")
    assert found.maps()[1].ravel().tolist() == [1] + [0] * 24  # the dog is in the first of 25 cells
    assert not found.scores[2].any()  # it runs in any case: the lemma is the same
    named = explain(
        BlackBox(), bright_corner(), "occlusion", caption="a dog sleeps", boxes=np.array([[0, 0, 0.2, 0.2]])
    )
    assert named.to_numpy()[:, 0].tolist() == [0, 1, 0]  # what it never said cannot be lost
    blurred = occlude(BlackBox(), bright_corner(), covers=("mean", "grey", "blur"))
    assert blurred.scores[1, 0] == 1
    with pytest.raises(InputError, match="no cover 'paint'"):
        occlude(BlackBox(), bright_corner(), covers=("paint",))
