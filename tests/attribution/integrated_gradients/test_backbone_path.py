"""Integrated gradients over pixels: complete on any number of segments, and tending to the plain integral."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attribution.small_captioners import SIZE, TOKENS, make_features, targets_of, tiny
from captrial.attribution.gradients.path_gradients import PathGradients
from captrial.attribution.integrated_gradients.backbone_path import BackbonePath
from captrial.attribution.integrated_gradients.integration import Integral, integrate
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, decoder_of


class Eye(nn.Module):
    """Convolutions with fixed batch normalisation, ReLU6 in place, functional ReLU and a residual: (b, 3, 8, 8)."""

    def __init__(self, last: type[nn.Module] = nn.ReLU6) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Sequential(nn.Conv2d(3, 10, 3, 2, 1), nn.BatchNorm2d(10), nn.ReLU6(inplace=True))
        self.middle = nn.Conv2d(10, 10, 3, 1, 1, groups=10)
        self.last = nn.Sequential(nn.Conv2d(10, SIZE, 2, 2), last())
        self.double().eval()

    def forward(self, pixels: Tensor) -> Tensor:
        cells = self.first(4 * pixels)
        cells = cells + torch.relu(self.middle(cells))
        result: Tensor = self.last(cells).flatten(2).transpose(1, 2)  # (b, 4, SIZE)
        return result


def subject_through(eye: nn.Module) -> Subject:
    captioner = tiny("transformer").requires_grad_(False)
    features = make_features(elements=4)

    def encode_elements(elements: Tensor) -> Any:
        rows = torch.zeros(len(elements), dtype=torch.long)
        return captioner.encode(features.select(rows).with_elements(elements))

    pixels = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(4)).double()
    return Subject(
        pixels,
        lambda inputs: encode_elements(eye(inputs)),
        decoder_of(captioner),
        backbone=lambda x: eye(x),
        encode_elements=encode_elements,
    )


@pytest.fixture(scope="module")
def subject() -> Subject:
    return subject_through(Eye().requires_grad_(False))


def through(subject: Subject, segments: int, portion: int = 2) -> Integral:
    found = BackbonePath(subject, targets_of(), torch.zeros_like(subject.inputs), portion).integrate(0.01, segments)
    assert found is not None
    return found


@pytest.mark.parametrize("segments", [1, 2, 5])
def test_complete_on_any_number_of_segments(subject: Subject, segments: int) -> None:
    found = through(subject, segments)
    assert found.steps == segments
    assert float(found.errors.max()) < 0.01
    with torch.no_grad():
        logits = subject.forward(torch.stack([torch.zeros_like(subject.inputs), subject.inputs]), targets_of().tokens)
    change = torch.diff(targets_of().scores(logits.logits), dim=0)[0]
    torch.testing.assert_close(found.changes, change)
    torch.testing.assert_close(
        found.attribution.flatten(1).sum(1), change, rtol=0, atol=0.01 * float(change.abs().max())
    )


def test_tends_to_the_plain_integral(subject: Subject) -> None:
    path = PathGradients(subject, targets_of(), torch.zeros_like(subject.inputs), 600)
    exact = integrate(path, AttributionSettings(steps=300, rule="gauss_legendre")).attribution

    def distance(segments: int) -> float:
        return float((through(subject, segments, 8).attribution - exact).abs().sum() / exact.abs().sum())

    far, nearer, near = distance(2), distance(6), distance(18)
    assert far > 1.8 * nearer > 3.2 * near
    assert near < 0.06


def test_portions_change_nothing(subject: Subject) -> None:
    torch.testing.assert_close(through(subject, 5, 1).attribution, through(subject, 5, 9).attribution)


def test_it_is_the_default_over_pixels(subject: Subject) -> None:
    found = integrated_gradients(subject, targets_of(), AttributionSettings(steps=3))
    torch.testing.assert_close(found.attribution, through(subject, 3).attribution)
    plain = integrated_gradients(subject, targets_of(), AttributionSettings(steps=3, rule="gauss_legendre"))
    assert float((plain.attribution - found.attribution).abs().max()) > 0


def test_a_backbone_of_another_kind_is_integrated_otherwise() -> None:
    """Softplus is not piecewise linear: sums do not come out, so nodes are used, and the result is complete as well."""
    smooth = subject_through(Eye(nn.Softplus).requires_grad_(False))
    path = BackbonePath(smooth, targets_of(), torch.zeros_like(smooth.inputs))
    assert path.integrate(0.01, 4) is None
    found = integrated_gradients(smooth, targets_of(), AttributionSettings(steps=4))
    expected = integrated_gradients(replace(smooth, backbone=None), targets_of(), AttributionSettings(steps=4))
    torch.testing.assert_close(found.attribution, expected.attribution)
    assert float(integrated_gradients(smooth, targets_of()).errors.max()) < 0.01


def test_an_image_that_is_the_baseline_has_no_attribution(subject: Subject) -> None:
    nothing = replace(subject, inputs=torch.zeros_like(subject.inputs))
    found = integrated_gradients(nothing, targets_of(TOKENS[:1]))
    assert not found.attribution.any()
    assert not found.errors.any()
