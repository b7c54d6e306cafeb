"""Integrated Gradients as an attribution method: over elements, or over pixels through the backbone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from captrial.attribution.attribution import Attribution
from captrial.attribution.gradients.path_gradients import zero_path
from captrial.attribution.integrated_gradients.backbone_path import SEGMENTS, BackbonePath
from captrial.attribution.integrated_gradients.integration import Integral, check_quadrature, integrate
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets, empty_attribution, input_attribution, is_empty

NAME = "integrated_gradients"


def attribute(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """|integrated gradients|, summed over features or colour channels, with the numerical error of every word."""
    if is_empty(subject, targets):
        zeros = np.zeros(len(targets), np.float32)
        return replace(empty_attribution(subject, targets, NAME), changes=zeros, errors=zeros)
    integral = integrated_gradients(subject, targets, settings)
    return replace(
        input_attribution(subject, targets, NAME, integral.attribution),
        changes=integral.changes.cpu().numpy(),
        errors=integral.errors.cpu().numpy(),
        steps=integral.steps,
    )


def integrated_gradients(subject: Subject, targets: Targets, settings: AttributionSettings | None = None) -> Integral:
    """Integrated gradients (w, *input) from the zero tensor, with their numerical errors."""
    settings = settings or AttributionSettings()
    check_quadrature(settings)
    if subject.backbone is not None and settings.rule == "averaged":
        found = _through_backbone(subject, targets, settings)
        if found is not None:
            return found
    return integrate(zero_path(subject, targets, settings), settings)


def _through_backbone(subject: Subject, targets: Targets, settings: AttributionSettings) -> Integral | None:
    """Segment by segment through a backbone of convolutions and ReLUs; None for another backbone."""
    segments = settings.steps or min(SEGMENTS, settings.max_steps)
    path = BackbonePath(subject, targets, torch.zeros_like(subject.inputs), max(1, settings.rows(subject) // 16))
    return path.integrate(settings.tolerance, segments)
