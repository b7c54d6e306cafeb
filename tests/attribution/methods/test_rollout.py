"""Attention rollout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.methods.rollout import roll_out
from captrial.errors import InputError


def attributor(name: str = "implicit", seed: int = 0) -> DatasetAttributor:
    return DatasetAttributor(name, toy_checkpoint(seed=seed), ToyFeatures(), beam=2)


def test_rollout_traces_cross_attention_back_through_the_encoder() -> None:
    """Worked out by hand from the weights of two layers: half of an element itself, half of what it attended to."""
    first = torch.tensor(
        [[0.5, 0.25, 0.0, 0.25], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    )  # three elements, one slot
    second = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.2, 0.2, 0.4, 0.2], [1.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False]])
    made = roll_out([layer.expand(1, 2, 3, 4) for layer in (first, second)], mask)[0]
    own = torch.tensor([[5 / 6, 1 / 6, 0], [0, 1, 0]])  # after the first layer, without slot and padding
    both = torch.tensor([[0.5, 0.5], [0.25, 0.75]]) @ own[:2]
    assert made[:2].numpy() == pytest.approx(both.numpy())


@pytest.mark.parametrize("preset", ["transformer-small", "smart-small", "m2-small", "ort-small"])
def test_rollout_is_a_distribution_and_leaves_the_model_alone(preset: str) -> None:
    attributor = DatasetAttributor("one", toy_checkpoint(preset), ToyFeatures(), "rollout", beam=2)
    sample = toy_samples()[0]
    (((weights, _, _),),) = attributor.attribute([sample.id], [[sample.captions[0].lower().split()]])
    assert weights.sum(1) == pytest.approx(1)
    (((plain, _, _),),) = DatasetAttributor("one", toy_checkpoint(preset), ToyFeatures()).attribute(
        [sample.id], [[sample.captions[0].lower().split()]]
    )
    assert np.abs(weights - plain).max() > 1e-3
    captioner = attributor.checkpoint.captioner  # type: ignore[attr-defined]
    assert not any(module._forward_hooks for module in captioner.modules())


def test_rollout_needs_an_encoder() -> None:
    with pytest.raises(InputError, match=r"rollout needs an encoder.*ShowAttendTell has none"):
        DatasetAttributor("one", toy_checkpoint("show_attend_tell-small"), ToyFeatures(), "rollout")
