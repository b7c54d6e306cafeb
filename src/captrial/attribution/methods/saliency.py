"""Saliency (Simonyan et al. 2014), the gradient at the image, and the gradient times the input."""

from __future__ import annotations

from torch import Tensor

from captrial.attribution.attribution import Attribution
from captrial.attribution.gradients.path_gradients import input_gradients
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets, empty_attribution, input_attribution, is_empty


def attribute(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """|gradient| of every word's score, summed over features or colour channels."""
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "saliency")
    return input_attribution(subject, targets, "saliency", input_gradients(subject, targets, settings))


def attribute_times_input(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """|gradient x input|, summed over features or colour channels."""
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "input_x_gradient")
    return input_attribution(subject, targets, "input_x_gradient", gradients_times_input(subject, targets, settings))


def gradients_times_input(subject: Subject, targets: Targets, settings: AttributionSettings | None = None) -> Tensor:
    """Gradients (w, *input) at the image times the input; signed."""
    return input_gradients(subject, targets, settings) * subject.inputs
