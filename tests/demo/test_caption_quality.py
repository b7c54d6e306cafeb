"""True captions name only what is there; captions of other images do not."""

from __future__ import annotations

import pytest

from captrial.demo.caption_quality import caption_quality
from captrial.toyworld import ToyWorld


def test_true_captions_are_right_and_those_of_other_images_are_not() -> None:
    world = ToyWorld(size=64)
    samples = [world.sample("wild", number) for number in range(40)]
    true = caption_quality("true", {sample.id: sample.captions[0] for sample in samples}, samples)
    assert true.there == pytest.approx(1.0)
    assert true.right > 0.9
    others = {sample.id: samples[number - 1].captions[0] for number, sample in enumerate(samples)}
    wrong = caption_quality("wrong", others, samples)
    assert wrong.there < 0.7
    assert wrong.low <= wrong.there <= wrong.high
    assert abs(wrong.there - true.by_chance) < 0.15  # the null of the true ones is what wrong ones reach
    assert wrong.cider < true.cider / 3
