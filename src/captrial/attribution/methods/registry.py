"""Attribution methods by name: one call gives every word's scores over all visual elements."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captrial.attribution.attribution import (
    Array,
    Attribution,
    on_image,
    tile,
)
from captrial.attribution.integrated_gradients.backbone_path import STRETCHES, BackbonePath
from captrial.attribution.integrated_gradients.integration import (
    MOST,
    Integral,
    RuleName,
    check_asked,
    integrate,
)
from captrial.attribution.maps import grid_of
from captrial.attribution.methods.gradients import PathGradients
from captrial.attribution.methods.relus import GuidedRelus
from captrial.attribution.subject import Subject
from captrial.attribution.targets import Targets
from captrial.errors import InputError

GRADIENT_METHODS = ("integrated_gradients", "saliency", "guided_backprop", "input_x_gradient")
METHODS = (*GRADIENT_METHODS, "attention", "occlusion")
CHUNK_ELEMENTS, CHUNK_PIXELS = 192, 32  # pairs of a point and a word in flight, over elements and through a backbone


@dataclass(frozen=True)
class Settings:
    """How gradients are taken; everything has a default that was measured."""

    tolerance: float = 0.01  # completeness error of every word, for integrated gradients
    steps: int | None = None  # a fixed number of steps (over pixels: of stretches) instead of a tolerance
    rule: RuleName = "averaged"  # or "gauss_legendre": captum's nodes, plain gradients
    max_steps: int = MOST
    chunk: int | None = None  # bounds memory
    shortcuts: bool = True  # see `shortcuts`

    def rows(self, subject: Subject) -> int:
        """Pairs of a point and a word in flight."""
        return self.chunk or (CHUNK_PIXELS if subject.is_pixels else CHUNK_ELEMENTS)


def attribute(
    subject: Subject, targets: Targets, method: str = "integrated_gradients", settings: Settings | None = None
) -> Attribution:
    """The attribution of every word to every visual element by one of `GRADIENT_METHODS` or by attention.

    Without any element (an image on which nothing was detected), or without any word, it is empty.
    """
    settings = settings or Settings()
    if method == "attention":
        return _attention(subject, targets)
    if method not in GRADIENT_METHODS:
        known = ", ".join((*GRADIENT_METHODS, "attention"))
        raise InputError(f"no attribution method {method!r} here; there are: {known}")
    if not len(targets) or not subject.inputs.numel():
        return _empty(subject, targets, method)
    if method == "integrated_gradients":
        integral = integrated_gradients(subject, targets, settings)
        return _result(subject, targets, method, integral.attribution, integral)
    return _result(subject, targets, method, input_gradients(subject, targets, method, settings))


def integrated_gradients(subject: Subject, targets: Targets, settings: Settings | None = None) -> Integral:
    """Integrated gradients (w, *input) from the zero tensor, with their completeness errors."""
    settings = settings or Settings()
    check_asked(settings.tolerance, settings.steps, settings.rule)
    if subject.see is not None and settings.rule == "averaged":
        found = _through_backbone(subject, targets, settings)
        if found is not None:
            return found
    path = _path(subject, targets, settings)
    return integrate(path, settings.tolerance, settings.steps, settings.rule, settings.max_steps)


def _through_backbone(subject: Subject, targets: Targets, settings: Settings) -> Integral | None:
    """Stretch by stretch through a backbone of convolutions and ReLUs; None where it is another."""
    stretches = settings.steps or min(STRETCHES, settings.max_steps)
    path = BackbonePath(subject, targets, torch.zeros_like(subject.inputs), max(1, settings.rows(subject) // 16))
    return path.integrate(settings.tolerance, stretches)


def input_gradients(
    subject: Subject, targets: Targets, method: str = "saliency", settings: Settings | None = None
) -> Tensor:
    """Gradients (w, *input) at the image: plain, guided, or times the input; signed."""
    settings = settings or Settings()
    path = _path(subject, targets, settings)
    here = torch.ones(1, dtype=path.start.dtype, device=path.start.device)
    guided: AbstractContextManager[Any] = GuidedRelus() if method == "guided_backprop" else nullcontext()
    with guided:
        gradient = path.pull(here, here).gradient
    return gradient * subject.inputs if method == "input_x_gradient" else gradient


def _path(subject: Subject, targets: Targets, settings: Settings) -> PathGradients:
    if not torch.is_floating_point(subject.inputs):
        raise InputError("gradients need floating-point input; use method='occlusion'")
    start = torch.zeros_like(subject.inputs)
    return PathGradients(subject, targets, start, settings.rows(subject), settings.shortcuts)


def _result(
    subject: Subject, targets: Targets, method: str, attribution: Tensor, integral: Integral | None = None
) -> Attribution:
    """Sum over features or colour channels."""
    if not attribution.isfinite().all():
        raise InputError(f"{method}: gradients of this caption are not finite; try another method or float64")
    over = 1 if subject.is_pixels else 2
    boxes, grid = _places(subject)
    return Attribution(
        targets.words,
        attribution.abs().sum(over).flatten(1).cpu().numpy(),
        boxes,
        method,
        attribution.sum(over).flatten(1).cpu().numpy(),
        grid,
        subject.window,
        None if integral is None else integral.changes.cpu().numpy(),
        None if integral is None else integral.errors.cpu().numpy(),
        1 if integral is None else integral.steps,
    )


@torch.no_grad()
def _attention(subject: Subject, targets: Targets) -> Attribution:
    """Soft attention, or the last layer's cross-attention: whatever the captioner reports."""
    targets = targets.to(subject.inputs.device)
    if not len(targets) or not subject.inputs.numel():
        return _empty(subject, targets, "attention")
    attention = subject.hear(subject.inputs.unsqueeze(0), targets.tokens).attention
    if attention is None or subject.cells is None:
        raise InputError("this captioner does not tell where it looks; use method='integrated_gradients'")
    weights = targets.merge(attention[0, 0])  # (w, k)
    cells = subject.cells.double().cpu().numpy()
    boxes, grid = on_image(cells, subject.window), grid_of(cells)
    return Attribution(targets.words, weights.cpu().numpy(), boxes, "attention", grid=grid, window=subject.window)


def _empty(subject: Subject, targets: Targets, method: str) -> Attribution:
    boxes, grid = _places(subject)
    nothing = np.zeros((len(targets), len(boxes)), np.float32)
    complete = np.zeros(len(targets), np.float32) if method == "integrated_gradients" else None
    return Attribution(targets.words, nothing, boxes, method, nothing, grid, subject.window, complete, complete)


def _places(subject: Subject) -> tuple[Array, tuple[int, int] | None]:
    """Boxes of the input's elements relative to the whole image, and their grid."""
    if subject.is_pixels:
        grid = subject.inputs.shape[1], subject.inputs.shape[2]
        return tile(*grid, subject.window), grid
    if subject.cells is None:
        return np.tile(np.array(subject.window), (len(subject.inputs), 1)), None
    cells = subject.cells.double().cpu().numpy()
    return on_image(cells, subject.window), grid_of(cells)
