"""Deletion and insertion, and random weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attribution.small_captioners import make_features, subject_of, targets_of, tiny, trained_captioner
from captrial.attribution.attribution import Attribution
from captrial.attribution.methods.registry import attribute
from captrial.attribution.sanity_checks import agreement, deletion_insertion, random_order, randomised
from captrial.attribution.subject import from_features
from captrial.captioners.trained import TrainedCaptioner


@pytest.fixture
def captioner() -> TrainedCaptioner:
    return trained_captioner()


def test_deletion_and_insertion_end_where_they_must() -> None:
    subject, targets = subject_of("transformer"), targets_of()
    found = attribute(subject, targets)
    curves = deletion_insertion(subject, targets, found.scores, points=8, rows=5)
    ends = torch.stack([torch.zeros_like(subject.inputs), subject.inputs])
    logits = subject.forward(ends, targets.tokens).logits[:, 0].softmax(-1)
    blank, whole = logits[:, torch.arange(6), targets.tokens[0]].detach().numpy()
    assert curves.deletion[:, 0] == pytest.approx(whole)
    assert curves.deletion[:, -1] == pytest.approx(blank)
    assert curves.insertion[:, 0] == pytest.approx(blank)
    assert curves.insertion[:, -1] == pytest.approx(whole)
    one = subject.inputs.clone()
    one[found.scores[2].argmax()] = 0
    left = subject.forward(one.unsqueeze(0), targets.tokens).logits[0, 0, 2].softmax(-1)[targets.tokens[0, 2]].detach()
    assert curves.deletion[2, 1] == pytest.approx(left.item())  # the highest score goes first
    deletion, insertion = curves.areas()
    assert deletion.shape == insertion.shape == (6,)
    assert random_order(found).shape == found.scores.shape


def test_random_weights_change_the_map_and_not_the_model() -> None:
    captioner = tiny("transformer")
    before = {name: tensor.clone() for name, tensor in captioner.state_dict().items()}
    found = attribute(from_features(captioner, make_features()), targets_of())
    twin = attribute(from_features(randomised(captioner), make_features()), targets_of())  # type: ignore[arg-type]
    assert agreement(found, found) == pytest.approx(np.ones(6))
    assert agreement(found, twin).mean() < 0.7
    assert all(torch.equal(before[name], tensor) for name, tensor in captioner.state_dict().items())
    flat = Attribution(("a",), np.zeros((1, 3)), np.zeros((3, 4)), "none")
    assert agreement(flat, flat).tolist() == [0.0]
