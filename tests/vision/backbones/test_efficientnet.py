"""EfficientNet-Lite's finer grid and its narrower cells."""

from __future__ import annotations

import pytest
import torch

from captrial.errors import InputError
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.registry import load_backbone


@pytest.mark.parametrize("version", [0, 2])
def test_every_second_cell_of_the_finer_grid_is_a_cell_of_the_usual_one(version: int) -> None:
    """Dilation keeps the weights: 14 x 14 cells, among which the 7 x 7 are found exactly, at the border, too."""
    name = f"efficientnet-lite{version}"
    coarse, fine = load_backbone(name), load_backbone(f"{name}?stride=16")
    pixels = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        seven = coarse.elements(pixels).view(7, 7, -1)
        fourteen = fine.elements(pixels).view(14, 14, -1)
    torch.testing.assert_close(fourteen[::2, ::2], seven, atol=1e-4, rtol=1e-4)
    assert fine.cells().shape == (196, 4)
    assert (coarse.width, fine.width) == (1280, 1280)


def test_cells_before_the_last_convolution() -> None:
    """The last convolution of the narrow cells, a 1 x 1 one and a ReLU6, makes the usual ones."""
    whole, narrow = load_backbone("efficientnet-lite0"), load_backbone("efficientnet-lite0?head=no")
    assert isinstance(whole, EfficientNetLite)
    assert narrow.width == 320
    pixels = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        cells = narrow.elements(pixels).transpose(1, 2).view(1, 320, 7, 7)
        made = whole.network._conv_head(cells).clamp(0, 6).flatten(2).transpose(1, 2)  # type: ignore[operator]
        torch.testing.assert_close(made, whole.elements(pixels), atol=1e-4, rtol=1e-4)


def test_descriptions_name_the_grid() -> None:
    """Old descriptions stay valid; the grid is part of the name, so stores of another one are refused."""
    plain, fine = load_backbone("efficientnet-lite0"), load_backbone("efficientnet-lite0?stride=16&head=no")
    assert plain.describe()["backbone"] == "efficientnet-lite0"
    assert fine.describe()["backbone"] == "efficientnet-lite0-stride16-blocks"
    for backbone in (plain, fine):
        assert load_backbone(backbone.describe()).describe() == backbone.describe()
    with pytest.raises(InputError, match="stride=8: there are 32 and 16"):
        load_backbone("efficientnet-lite0?stride=8")


def test_backbones_of_a_version_have_weights_of_their_own() -> None:
    """They are read once a process; a detector tunes its own."""
    first, second = EfficientNetLite(0), EfficientNetLite(0)
    pairs = list(zip(first.parameters(), second.parameters(), strict=True))
    assert all(one.equal(other) and one.data_ptr() != other.data_ptr() for one, other in pairs)
    first.to(torch.float64)
    assert {one.dtype for one in second.parameters()} == {torch.float32}
    assert {one.dtype for one in EfficientNetLite(0).parameters()} == {torch.float32}
