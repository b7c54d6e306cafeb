"""Quadrature along a path."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from captrial.attribution.gradients.path_gradients import PathGradients
from captrial.attribution.integrated_gradients.integration import even_ends, integrate
from captrial.attribution.subject import Subject, word_targets
from captrial.captioners.protocols import TokenLogits, WordSpan


def test_scores_that_jump_somewhere_on_the_path_are_integrated_there() -> None:
    """Two steps, each a thousandth of the path: a rule over the whole cannot see them, panels close in on them."""
    inputs = torch.linspace(0.5, 1.5, 6, dtype=torch.float64).view(3, 2)

    def decode(memory: Tensor, tokens: Tensor) -> TokenLogits:
        way = memory.flatten(1).mean(1)  # alpha, as the inputs have the mean 1
        first, second = torch.tanh((way - 0.31) * 2000), 2 * torch.tanh((way - 0.734) * 3000)
        logits = torch.stack([first, first + second], -1).view(-1, 1, 1, 2).expand(-1, len(tokens), tokens.shape[1], 2)
        return TokenLogits(logits, torch.zeros(len(memory), len(tokens), tokens.shape[1], 3))

    targets = word_targets([0, 1], [WordSpan("this", 0, 1), WordSpan("that", 1, 2)], kind="logit")
    path = PathGradients(Subject(inputs, lambda x: x, decode), targets, torch.zeros_like(inputs), chunk=64)
    found = integrate(path)
    assert found.changes.tolist() == pytest.approx([2.0, 6.0])
    assert float(found.errors.max()) < 0.01
    assert found.steps < 200
    assert torch.allclose(found.attribution, found.changes.view(2, 1, 1) * inputs / inputs.sum(), rtol=0.02)


def test_segments_are_short_where_scores_change() -> None:
    alphas = np.array([0.0, 0.1, 1.0])
    ends = even_ends(alphas, np.array([[0.0, 1.0], [9.0, 10.0], [10.0, 11.0]]), 10)
    assert ends[0] == 0
    assert ends[-1] == 1
    assert (np.diff(ends) > 0).all()
    assert ends[5] == pytest.approx(0.1)
    assert np.allclose(even_ends(alphas, np.ones((3, 2)), 4), np.linspace(0, 1, 5))
