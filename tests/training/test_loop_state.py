"""The moving average of weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from captrial.training.loop import MovingAverage


def with_weight(model: nn.Linear, value: float) -> nn.Linear:
    nn.init.constant_(model.weight, value)
    return model


def test_steps_fade_by_the_decay() -> None:
    model = with_weight(nn.Linear(2, 1), 0.0)
    average = MovingAverage(model, decay=0.75)
    for value in (4.0, 8.0):
        with_weight(model, value)
        average.update()
    torch.testing.assert_close(average.weights["weight"], torch.full((1, 2), 0.75 * 1.0 + 0.25 * 8.0))


def test_counters_are_copied() -> None:
    model = nn.BatchNorm1d(3)
    average = MovingAverage(model, decay=0.9)
    model(torch.randn(4, 3))
    average.update()
    assert average.weights["num_batches_tracked"] == 1


def test_the_models_own_weights_come_back_even_after_an_error() -> None:
    model = with_weight(nn.Linear(2, 1), 1.0)
    average = MovingAverage(model, decay=0.5)
    with_weight(model, 3.0)
    with average.in_place():
        assert model.weight[0, 0].item() == 1.0
    assert model.weight[0, 0].item() == 3.0
    with pytest.raises(RuntimeError), average.in_place():
        raise RuntimeError
    assert model.weight[0, 0].item() == 3.0
