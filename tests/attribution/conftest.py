"""A small captioner and an image for all tests of attribution."""

from __future__ import annotations

import pytest
from PIL import Image

from attribution.small_captioners import noise_image, trained_captioner
from captrial.captioners.trained import TrainedCaptioner


@pytest.fixture
def captioner() -> TrainedCaptioner:
    return trained_captioner()


@pytest.fixture
def image() -> Image.Image:
    return noise_image()
