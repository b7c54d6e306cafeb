"""Claims of Cornia 2022 are decided by intervals, also those that fail here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from captrial.papers.cornia2022_claims import caption_claims, grounding_claims, robot_claims, speed_claims
from captrial.papers.prediction_time import Timing

IMAGES = [str(number) for number in range(200)]
TIMES = {"SMArT": 0.1, "Transformer": 0.2, "M2": 0.3}
DECISIONS = [(0.1, True), (-0.1, False), (0.0, None)]


def scored(mean: float, seed: int, groups: list[str] | None = None) -> Any:
    """A result whose captions score about `mean`."""
    values = mean + np.random.default_rng(seed).normal(0, 0.04, len(IMAGES))
    values[::50] = np.nan  # captions without a noun
    return SimpleNamespace(scores=lambda delta: values, groups=groups or IMAGES)


@pytest.mark.parametrize(("gain", "holds"), DECISIONS)
def test_better_grounded_than_the_transformer(gain: float, holds: bool | None) -> None:
    results = {
        ("regions", "Transformer"): scored(0.4, 0),
        ("regions", "M2"): scored(0.4 + gain, 1),
        ("patches", "Transformer"): scored(0.4 + gain / 2, 2),
    }
    found = grounding_claims(results, "Saliency")
    assert [claim.holds for claim in found] == [holds, None]  # regions and patches have the same mean
    assert found[0].text == "M2 is better grounded than the Transformer at δ = 0 (regions, Saliency)"
    apart = grounding_claims({**results, ("patches", "Transformer"): scored(0.4 - gain, 2)}, "Saliency")
    assert apart[1].holds is holds
    assert "Captioners on regions are better grounded" in apart[1].text


@pytest.mark.parametrize(("drop", "holds"), [(0.0, True), (0.1, False), (0.022, None)])
def test_no_drop_on_the_robot(drop: float, holds: bool | None) -> None:
    groups = [f"room {number // 2}" for number in range(len(IMAGES))]
    key = ("regions", "M2")
    (claim,) = robot_claims({key: scored(0.4 - drop, 0, groups)}, {key: scored(0.4, 1)}, "Saliency")
    assert claim.holds is holds


def test_frames_of_one_sequence_are_no_independent_images() -> None:
    """Two sequences, one of them bad: one resample in four has the bad one alone."""
    bad = np.r_[np.full(100, 0.1), np.full(100, 0.5)]
    frames = SimpleNamespace(scores=lambda delta: bad, groups=["a"] * 100 + ["b"] * 100)
    key = ("regions", "M2")
    (claim,) = robot_claims({key: frames}, {key: scored(0.4, 1)}, "Saliency")
    assert claim.holds is None
    alone = SimpleNamespace(scores=lambda delta: bad, groups=IMAGES)
    assert robot_claims({key: alone}, {key: scored(0.4, 1)}, "Saliency")[0].holds is False


@pytest.mark.parametrize(("gain", "holds"), DECISIONS)
def test_captions_and_coverage(gain: float, holds: bool | None) -> None:
    def values(mean: float, seed: int) -> dict[str, Any]:
        drawn = mean + np.random.default_rng(seed).normal(0, 0.1, len(IMAGES))
        return {"cider": drawn, "coverage": drawn}

    found = {
        ("regions", "Transformer", "test"): values(0.5, 0),
        ("regions", "M2", "test"): values(0.5 + gain, 1),
        ("ViT", "M2", "test"): values(0.5 + 2 * gain, 2),
    }
    captions, coverage = caption_claims(found, {"test": IMAGES})
    assert captions.text == "M2 has better captions than the Transformer, regions, test (CIDEr)"
    assert coverage.text == "M2 on ViT covers more objects than on regions, test (Coverage)"
    assert (captions.holds, coverage.holds) == (holds, holds)


@pytest.mark.parametrize(("slowest", "holds"), [(0.3, True), (0.1, False), (0.2, None)])
def test_m2_is_the_slowest(slowest: float, holds: bool | None) -> None:
    def timing(name: str, mean: float) -> Timing:
        return Timing(name, 50, (mean - 0.01, mean, mean + 0.01))

    captioners: Any = [SimpleNamespace(name=name, model=name, features="regions") for name in TIMES]
    timings = [timing(name, mean) for name, mean in {**TIMES, "M2": slowest}.items()]
    (claim,) = speed_claims(captioners, timings, 50)
    assert claim.holds is holds
