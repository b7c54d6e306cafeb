"""Captioners with packed weights speak almost, or exactly, as before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from captrial.captioners import ARCHITECTURES, create
from captrial.captioners.packed_weights import PackedLinear, packed
from captrial.decoding import BeamSettings, beam_search
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features

WORDS = 40


def features(images: int = 6) -> Features:
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(images, 5, dtype=torch.bool)
    boxes = torch.rand(images, 5, 4, generator=generator).sort(-1).values  # left, top before right, bottom
    relations = torch.randint(0, 5, (images, 3, 3), generator=generator)
    attributes = torch.randint(4, WORDS, (images, 5, 2), generator=generator)
    return Features(torch.randn(images, 5, 16, generator=generator), mask, boxes, relations, attributes)


@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 16), (1, 16)])
def test_layers_agree_within_their_rounding(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(16, 24), torch.randn(shape)
    exact = linear(x)
    halved = nn.Linear(16, 24)
    halved.load_state_dict({name: value.half().float() for name, value in linear.state_dict().items()})
    assert torch.allclose(PackedLinear(halved, "float16")(x), halved(x), atol=1e-5)
    assert torch.allclose(PackedLinear(linear, "float32")(x), exact, atol=1e-6)
    assert float((PackedLinear(linear, "int8")(x) - exact).detach().abs().max()) < 0.03 * float(
        exact.detach().abs().max()
    )
    assert PackedLinear(nn.Linear(16, 24, bias=False), "int8")(x).shape == exact.shape


@pytest.mark.parametrize("stored", [torch.float16, torch.float32])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_nothing_is_lost_in_float32(name: str, stored: torch.dtype) -> None:
    """Weights that fit into float16 are kept so, others as they are; the captions are those of the model itself."""
    torch.manual_seed(0)
    model = create(f"{name}-small", words=WORDS, features=16).eval()
    model.load_state_dict({key: value.to(stored).float() for key, value in model.state_dict().items()})
    faster = packed(model, "float32")
    layers = [module for module in faster.modules() if isinstance(module, PackedLinear)]
    assert {layer.precision for layer in layers} == {str(stored).removeprefix("torch.")}
    with torch.no_grad():
        said = [beam_search(one, one.encode(features()), BeamSettings(beam=3, max_words=8)) for one in (model, faster)]
    assert torch.equal(said[0].tokens, said[1].tokens)
    torch.testing.assert_close(said[0].scores, said[1].scores, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["transformer", "m2", "top_down", "aoa"])
def test_float16_weights_say_the_same(name: str) -> None:
    """Weights that fit into float16, as shipped ones do: same captions, and the model itself is left as it was."""
    torch.manual_seed(0)
    assert name in ARCHITECTURES
    model = create(f"{name}-small", words=WORDS, features=16).eval()
    model.load_state_dict({key: value.half().float() for key, value in model.state_dict().items()})
    smaller = packed(model, "float16")
    assert any(isinstance(module, PackedLinear) for module in smaller.modules())
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
    with torch.no_grad():
        said = [beam_search(one, one.encode(features()), BeamSettings(beam=3, max_words=8)) for one in (model, smaller)]
        assert torch.equal(said[0].tokens, said[1].tokens)
        assert torch.allclose(said[0].scores, said[1].scores, atol=1e-3)
        rough = packed(model, "int8")
        forced = [one(features(), said[0].tokens).logits for one in (model, rough)]
    assert float((forced[0] - forced[1]).abs().mean()) < 0.1 * float(forced[0].std())


def test_precisions_are_named() -> None:
    with pytest.raises(InputError, match="float32, float16, int8"):
        packed(nn.Linear(2, 2), "int4")
