"""What a run keeps on disk comes back as it was; the moving average of its weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from captrial.errors import DamagedError
from captrial.training.state import STATE, Counters, MovingAverage, load_state, read_counters, save_state


def trained(seed: int) -> tuple[nn.Linear, torch.optim.Optimizer, MovingAverage]:
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    optimizer, average = torch.optim.AdamW(model.parameters(), lr=0.1), MovingAverage(model, decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        average.update()
    return model, optimizer, average


def test_a_state_comes_back_whole(tmp_path: Path) -> None:
    model, optimizer, average = trained(0)
    counters = Counters(stage=1, epoch=2, batch=3, step=4, total_steps=5, scores=[0.25], logged={"loss": 1.5})
    save_state(tmp_path / STATE, model, optimizer, counters, average)
    other, moments, mean = trained(1)
    load_state(tmp_path / STATE, other, moments, mean)
    assert read_counters(tmp_path / STATE) == counters
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
        assert torch.equal(mean.weights[name], average.weights[name])
    for index, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(moments.state_dict()["state"][index][key], value) for key, value in state.items())


def test_a_state_of_another_captioner_or_a_cut_one_is_told(tmp_path: Path) -> None:
    model, optimizer, average = trained(0)
    save_state(tmp_path / STATE, model, optimizer, Counters(), average)
    wider = nn.Linear(4, 2)
    with pytest.raises(DamagedError, match="does not fit the captioner"):
        load_state(tmp_path / STATE, wider, torch.optim.AdamW(wider.parameters()))
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:-8])
    with pytest.raises(DamagedError):
        read_counters(tmp_path / STATE)


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
