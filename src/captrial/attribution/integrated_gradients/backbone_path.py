"""Integrated gradients over pixels, through a backbone of convolutions and ReLUs.

From a grey image to a photograph hundreds of thousands of ReLUs switch, so that the slope at a point says little about
its neighbourhood: with 50 nodes the textbook's rule is still off by several times the change of score. But between two
points of the path every ReLU has a mean derivative, known from its inputs at both, and everything else in such a
backbone is linear. With mean derivatives a backward pass is therefore exact between the two points: whatever weights g
the elements F have, the pulled-back weights times the step of the pixels add up to g . (F(beta) - F(alpha)). (This is
the chain rule of differences; DeepLIFT uses it once for the whole path.) The captioner behind the backbone is
integrated along the straight line from F(alpha) to F(beta), which is cheap, with as many steps as its words need.

So attributions are complete for any number of segments, and tend to integrated gradients as segments become shorter;
docs/explain.md has measurements. A backbone of another kind (a ViT) is detected, as its sums do not match, and
integrated by nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captrial.attribution.gradients.path_gradients import PathGradients, ScaledNorms
from captrial.attribution.gradients.relus import ReluMode, plain_relu
from captrial.attribution.integrated_gradients.integration import (
    Bend,
    Integral,
    Refinement,
    completeness_errors,
    error_scale,
    even_ends,
    refine,
)
from captrial.attribution.subject import Subject, Targets

SEGMENTS, PORTION = 16, 2  # of the path, and how many of them are in flight at a time
ELEMENT_ROWS = 192  # pairs of a point and a word in flight behind the backbone
_FIRST, _MOST = 4, 96  # steps of the captioner between two ends
_ALPHAS = np.concatenate([[0.0], np.geomspace(2e-3, 1.0, 15)])
_LEAK = 1e-3  # how much of what is pulled back may be missing before a backbone counts as another kind


class _MeanSlope(torch.autograd.Function):
    """A ReLU of the ends of segments (m + 1, ...), whose derivative in row j is its mean between rows j and j + 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ceiling: float | None) -> Tensor:
        result = plain_relu(x, ceiling)
        way, here = x[1:] - x[:-1], x[:-1]
        inside = (here > 0) if ceiling is None else (here > 0) & (here < ceiling)
        slope = (result[1:] - result[:-1]).div_(way.masked_fill(way == 0, 1.0))
        ctx.save_for_backward(torch.where(way == 0, inside.to(way), slope))
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        pulled = torch.zeros_like(gradients[0])  # nothing comes back from the last end
        torch.mul(gradients[0][:-1], slope, out=pulled[:-1])
        return pulled, None


class SecantRelus(ReluMode):
    """Inside `with`, rows of a batch are the ends of neighbouring segments, and ReLUs act with mean derivatives."""

    def relu(self, x: Tensor, ceiling: float | None) -> Tensor:
        """A ReLU; rows that are one go on plainly."""
        if len(x) < 2:
            return plain_relu(x, ceiling)
        result: Tensor = _MeanSlope.apply(x, ceiling)  # type: ignore[no-untyped-call]
        return result


@dataclass(eq=False)
class BackbonePath:
    """All words of a caption along the path from `start` to the pixels of a subject whose backbone is known."""

    subject: Subject
    targets: Targets
    start: Tensor
    portion: int = PORTION

    def __post_init__(self) -> None:
        self.targets = self.targets.to(self.subject.inputs.device)
        self.direction = self.subject.inputs - self.start

    @cached_property
    def scores(self) -> Tensor:
        """Scores (16, w) along the path, both of its ends included."""
        return self._scores(torch.as_tensor(_ALPHAS).to(self.start))

    @property
    def changes(self) -> Tensor:
        """S(image) - S(baseline) (w,)."""
        return self.scores[-1] - self.scores[0]

    def integrate(self, tolerance: float, segments: int = SEGMENTS) -> Integral | None:
        """Integrated gradients on so many segments; None if the backbone is not piecewise linear."""
        ends = torch.as_tensor(even_ends(_ALPHAS, self.scores.double().cpu().numpy(), segments)).to(self.start)
        limit = tolerance * error_scale(self.changes) / (2 * segments**0.5)  # (w,) of a segment: their signs differ
        gradient = torch.zeros(len(self.targets), *self.start.shape, dtype=self.start.dtype, device=self.start.device)
        for first in range(0, segments, self.portion):
            part = self._pull(ends[first : first + self.portion + 1], limit)
            if part is None:
                return None
            gradient += part
        sums = (gradient * self.direction).double().flatten(1).sum(1).to(self.changes)
        return Integral(gradient, self.direction, self.changes, completeness_errors(sums, self.changes), segments)

    def _pull(self, ends: Tensor, limit: Tensor) -> Tensor | None:
        """The part (w, *input) of the segments between some ends."""
        assert self.subject.backbone is not None
        points = self._points(ends).requires_grad_()
        with SecantRelus(), ScaledNorms():
            elements = self.subject.backbone(points)  # (m + 1, k, d)
        weights = self._weights(elements.detach(), limit)  # (w, m, k, d)
        steps = ends.diff().view(-1, *[1] * self.start.ndim)
        part, leak, size = [], 0.0, 0.0
        for word in weights:
            wanted = torch.cat([word, torch.zeros_like(word[:1])])
            (pulled,) = torch.autograd.grad(elements, points, wanted, retain_graph=True)
            part.append((pulled[:-1] * steps).sum(0))
            of_elements = (word * elements.detach().diff(dim=0)).flatten(1).sum(1)
            of_input = (pulled[:-1] * steps * self.direction).flatten(1).sum(1)
            leak, size = leak + float((of_input - of_elements).abs().sum()), size + float(of_elements.abs().sum())
        return torch.stack(part) if leak <= _LEAK * size else None

    def _weights(self, elements: Tensor, limit: Tensor) -> Tensor:
        """Mean gradients (w, m, k, d) of the captioner between neighbouring elements (m + 1, k, d)."""
        assert self.subject.encode_elements is not None
        found = []
        for start, end in pairwise(elements):
            captioner = Subject(end, self.subject.encode_elements, self.subject.decode)
            path = PathGradients(captioner, self.targets, start, ELEMENT_ROWS)
            found.append(refine(path, Refinement(Bend(), 1.0, _FIRST, _MOST), scale=limit).gradient)
        return torch.stack(found, 1)

    @torch.no_grad()
    def _scores(self, alphas: Tensor) -> Tensor:
        parts = [self._points(part) for part in torch.split(alphas, 2 * self.portion)]
        with ScaledNorms():
            found = [self.subject.forward(part, self.targets.tokens).logits for part in parts]
        return torch.cat([self.targets.scores(logits) for logits in found])

    def _points(self, alphas: Tensor) -> Tensor:
        return self.start + alphas.view(-1, *[1] * self.start.ndim) * self.direction
