"""Attention correctness by layer and head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.methods.cross_attention import attend_heads
from captrial.attribution.word_maps import shares_inside, square_maps
from captrial.captioners import create
from captrial.errors import InputError
from captrial.grounding.attention_correctness import FORCED, measure_attention, share_inside
from captrial.grounding.attention_heads import heads_table, measure_heads
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.features.visual_features import Features


def some_features(elements: int = 16) -> Features:
    made = torch.randn(2, elements, 8, generator=torch.Generator().manual_seed(0))
    return Features(made, torch.ones(2, elements, dtype=torch.bool), grid_boxes(4, 4).expand(2, -1, -1))


@pytest.mark.parametrize(("preset", "calls"), [("transformer-small", 1), ("smart-small", 1), ("m2-small", 2)])
def test_heads_of_the_last_layer_make_the_attention_of_the_captioner(preset: str, calls: int) -> None:
    """Their mean, over the levels that M2 attends to as well, is what the captioner reports."""
    torch.manual_seed(0)
    captioner = create(preset, words=20, features=8).eval()
    tokens = torch.randint(4, 20, (2, 3, 5))
    with torch.no_grad():
        layers = attend_heads(captioner, some_features(), tokens)
        attention = captioner(some_features(), tokens).attention
    last = [layer.weights for layer in layers[-calls:]]
    assert len(layers) % calls == 0
    assert layers[-1].layer == (f"{len(layers) // calls}.{calls}" if calls > 1 else str(len(layers)))
    torch.testing.assert_close(torch.stack(last).mean((0, 2)), attention, atol=1e-5, rtol=1e-4)
    assert not any(module._forward_hooks for module in captioner.modules())  # the captioner is as before


def test_an_lstm_has_no_heads() -> None:
    captioner: Any = create("show_attend_tell-small", words=20, features=8)
    with pytest.raises(InputError, match="has no layers and heads"):
        attend_heads(captioner, some_features(), torch.zeros(2, 1, 3, dtype=torch.long))


@pytest.mark.parametrize("grid", [(4, 4), None])
def test_shares_are_those_of_the_painted_maps(grid: tuple[int, int] | None) -> None:
    generator = np.random.default_rng(0)
    weights, mask = generator.random((3, 16)), generator.random((56, 56)) > 0.6
    weights[2] = 0  # a uniform map
    corners = generator.random((16, 4))
    boxes = np.concatenate([np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])], 1)
    expected = share_inside(square_maps(weights, boxes, grid, 56), mask)
    assert shares_inside(weights, boxes, grid, mask) == pytest.approx(expected, abs=1e-12)


def test_every_head_has_a_row() -> None:
    """Each head of each layer, on the phrases of Table 1."""
    samples = toy_samples()[:3]
    attributor = DatasetAttributor("one", toy_checkpoint("transformer-small"), ToyFeatures(), beam=1)
    found = measure_heads(attributor, samples)
    result = measure_attention(attributor, samples, [FORCED])
    assert found.areas == pytest.approx([score.area for score in result.scores])
    table = heads_table([found])
    config: Any = attributor.checkpoint.captioner.config
    assert len(table.rows) == config.decoder_layers * config.heads
    assert table.rows[0][:4] == ("one", "1", 1, len(result.scores))
    for values in found.correctness.values():
        assert all(0 <= value <= 1 for value in values)
