"""Attention as the captioner reports it: soft attention, or the last layer's cross-attention averaged over heads."""

from __future__ import annotations

import torch
from torch import Tensor

from captrial.attribution.attribution import Attribution, grid_of, on_image
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets, empty_attribution, is_empty
from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features


@torch.no_grad()
def attribute(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """Attention weights of every word; the mean over its tokens."""
    targets = targets.to(subject.inputs.device)
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "attention")
    attention = subject.forward(subject.inputs.unsqueeze(0), targets.tokens).attention
    if attention is None or subject.cells is None:
        raise InputError("this captioner reports no attention; use method='integrated_gradients'")
    weights = targets.merge(attention[0, 0])  # (w, k)
    cells = subject.cells.double().cpu().numpy()
    boxes, grid = on_image(cells, subject.window), grid_of(cells)
    return Attribution(targets.words, weights.cpu().numpy(), boxes, "attention", grid=grid, window=subject.window)


def attend(captioner: Captioner, features: Features, tokens: Tensor) -> Tensor:
    """Attention (b, n, t, k) while the captioner is fed (b, n, t) tokens."""
    attention: Tensor = captioner(features, tokens).attention
    return attention
