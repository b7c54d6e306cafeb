"""Guided Backpropagation (Springenberg et al. 2015): the gradient, with ReLUs that pass only its non-negative part."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from captrial.attribution.attribution import Attribution
from captrial.attribution.gradients.path_gradients import input_gradients
from captrial.attribution.gradients.relus import ReluMode, plain_relu
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets, empty_attribution, input_attribution, is_empty


def attribute(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """|guided gradient| of every word's score, summed over features or colour channels."""
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "guided_backprop")
    return input_attribution(subject, targets, "guided_backprop", guided_gradients(subject, targets, settings))


def guided_gradients(subject: Subject, targets: Targets, settings: AttributionSettings | None = None) -> Tensor:
    """Guided gradients (w, *input) at the image; signed."""
    with GuidedRelus():
        return input_gradients(subject, targets, settings)


class _PassPositive(torch.autograd.Function):
    """The identity, whose gradient is max(gradient, 0)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].clamp(min=0)


class GuidedRelus(ReluMode):
    """Inside `with`, every ReLU passes only non-negative gradient."""

    def relu(self, x: Tensor, ceiling: float | None) -> Tensor:
        """An ordinary ReLU behind an identity that clips the gradient."""
        passed: Tensor = _PassPositive.apply(x)  # type: ignore[no-untyped-call]
        return plain_relu(passed, ceiling)
