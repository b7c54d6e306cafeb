"""The gate: which of three verdicts, and that its bounds are wrong no more often than the risk."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.errors import InputError
from captrial.metrics import MeanState
from captrial.metrics.significance import GateSettings, check_not_worse
from captrial.metrics.significance.non_inferiority import FEWEST_IMAGES


def state(values: np.ndarray) -> MeanState:
    return MeanState({"m": values})


def verdict(shift: float, margin: float, images: int = 400, better: str = "higher") -> str:
    random = np.random.default_rng(3)
    old = random.random(images)
    new = old + shift + 0.05 * random.standard_normal(images)
    states = {"old": state(old), "new": state(new)}
    return check_not_worse(states, "m", GateSettings(margin), better).verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shift", "margin", "expected"),
    [(0.0, 0.01, "not worse"), (-0.03, 0.01, "worse"), (-0.01, 0.01, "undecided"), (0.03, 0.0, "not worse")],
)
def test_verdicts(shift: float, margin: float, expected: str) -> None:
    assert verdict(shift, margin) == expected


def test_a_metric_whose_lower_values_are_better_is_turned() -> None:
    assert verdict(0.03, 0.01, better="lower") == "worse"
    assert verdict(-0.03, 0.01, better="lower") == "not worse"


def test_few_images_decide_nothing_and_equal_captions_are_not_worse() -> None:
    assert verdict(-0.5, 0.01, images=FEWEST_IMAGES - 1) == "undecided"
    same = state(np.random.default_rng(0).random(50))
    assert check_not_worse({"old": same, "new": same}, "m", GateSettings(0.0)).verdict == "not worse"


def test_bounds_are_wrong_no_more_often_than_the_risk() -> None:
    """Skewed differences, 30 images; 400 replays with a risk of 10% have a standard error of 1.5 points."""
    random = np.random.default_rng(1)
    wrong = np.zeros(2)
    for seed in range(400):
        old = random.random(30)
        new = old + 0.1 * (random.standard_exponential(30) - 1)
        found = check_not_worse({"old": state(old), "new": state(new)}, "m", GateSettings(0, 0.1, 500, seed))
        wrong += [found.low > 0, found.high < 0]
    assert (wrong / 400 <= 0.16).all()
    assert wrong.sum() / 800 >= 0.05  # and they are no wider than they must be


def test_settings_out_of_range() -> None:
    for margin, risk in ((-0.1, 0.05), (float("nan"), 0.05), (0.0, 0.0), (0.0, 0.7)):
        with pytest.raises(InputError, match="must be"):
            GateSettings(margin, risk)
