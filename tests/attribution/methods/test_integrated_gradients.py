"""Integrated gradients as a method: complete for all architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attribution.small_captioners import subject_of, targets_of
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings, attribute
from captrial.attribution.subject import Subject
from captrial.captioners import ARCHITECTURES


@pytest.fixture(params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


def test_integrated_gradients_are_complete_by_default(subject: Subject) -> None:
    found = attribute(subject, targets_of())
    targets = targets_of()
    ends = torch.stack([torch.zeros_like(subject.inputs), subject.inputs])
    scores = targets.scores(subject.forward(ends, targets.tokens).logits).detach().numpy()
    change = scores[1] - scores[0]
    assert found.signed is not None
    scale = np.maximum(np.abs(change), 0.05 * np.abs(change).max())
    assert found.errors == pytest.approx(np.abs(found.signed.sum(1) - change) / scale, abs=1e-9)
    assert found.error is not None
    assert found.error < 0.01
    assert found.changes == pytest.approx(change)


def test_averaged_relus_converge_to_the_same_integral_sooner() -> None:
    subject, targets = subject_of("transformer"), targets_of()
    exact = integrated_gradients(subject, targets, AttributionSettings(steps=160)).attribution

    def error(**options: Any) -> float:
        found = integrated_gradients(subject, targets, AttributionSettings(**options)).attribution
        return float((found - exact).abs().sum() / exact.abs().sum())

    assert error(steps=160, rule="gauss_legendre") < 0.03
    assert error(steps=24) < error(steps=72, rule="gauss_legendre")


def test_a_path_of_given_steps_takes_them() -> None:
    found = attribute(subject_of("smart"), targets_of(), settings=AttributionSettings(steps=7))
    assert found.steps == 7


def test_steps_stop_at_the_most_and_say_so() -> None:
    found = attribute(subject_of("m2"), targets_of(), settings=AttributionSettings(tolerance=1e-12, max_steps=20))
    assert found.steps == 20
    assert found.error is not None
    assert found.error > 1e-12


def test_an_image_equal_to_the_baseline_gives_zeros_not_nan() -> None:
    subject = subject_of("show_attend_tell")
    blank = Subject(torch.zeros_like(subject.inputs), subject.encode, subject.decode, subject.cells)
    found = attribute(blank, targets_of())
    assert (found.scores == 0).all()
    assert found.errors is not None
    assert (found.errors == 0).all()
