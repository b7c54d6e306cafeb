"""Three exact savings while integrating along a straight path, without knowing the model.

A torch function mode watches `linear` layers: the first one, applied to the points of the path, is affine in the
path's parameter and is computed once instead of once a point; the last one, onto the vocabulary, is computed for the
words that are asked about only (other logits read 0). Batch normalisation with fixed statistics is a multiplication and
an addition, and its gradient one multiplication. Backward passes profit most: gradients are summed
over the points before the wide first layer, and never spread over the vocabulary. `PathGradients` checks the scores
with and without these savings against each other before relying on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class StraightPath:
    """Points `start + alpha * direction + offset`; `offset` is zero and there to be differentiated."""

    def __init__(self, start: Tensor, direction: Tensor, alphas: Tensor, track: bool = True) -> None:
        self.start, self.direction = start, direction
        self.alphas = alphas.detach().clone().requires_grad_(track)  # (m,)
        self.offset = torch.zeros_like(start).requires_grad_(track)
        self.points = self.along(start, direction, self.offset)  # (m, *start.shape)

    def along(self, start: Tensor, direction: Tensor, offset: Tensor) -> Tensor:
        """The path between the images of its ends under an affine map."""
        alphas = self.alphas.view(-1, *[1] * start.ndim)
        return start + alphas * direction + offset

    def linear(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`linear(points)`, computed from the three vectors that make the points."""
        start = functional.linear(self.start, weight, bias)
        return self.along(start, functional.linear(self.direction, weight), functional.linear(self.offset, weight))


class Shortcuts(TorchFunctionMode):
    """Take the savings inside `with Shortcuts(path, tokens, vocabulary):`."""

    def __init__(self, path: StraightPath, tokens: Tensor | None, vocabulary: int) -> None:
        super().__init__()
        self.path, self.tokens, self.vocabulary = path, tokens, vocabulary

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replace `linear` where one of the two cases holds, and `batch_norm` of fixed statistics."""
        if func is functional.linear:
            x, weight, bias = _arguments(*args, **(kwargs or {}))
            if x is self.path.points:
                return self.path.linear(weight, bias)
            if self.tokens is not None and len(weight) == self.vocabulary:
                return self._some_words(x, weight, bias, self.tokens)
        if func is functional.batch_norm:
            scaled = _scaled(*args, **(kwargs or {}))
            if scaled is not None:
                return scaled
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _some_words(x: Tensor, weight: Tensor, bias: Tensor | None, tokens: Tensor) -> Tensor:
        some = functional.linear(x, weight[tokens], None if bias is None else bias[tokens])
        return x.new_zeros(*x.shape[:-1], len(weight)).index_copy(-1, tokens, some)


class ScaledNorms(TorchFunctionMode):
    """The last of the three alone: batch normalisation with fixed statistics as a scale."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replace `batch_norm` of fixed statistics."""
        scaled = _scaled(*args, **(kwargs or {})) if func is functional.batch_norm else None
        return func(*args, **(kwargs or {})) if scaled is None else scaled


def _scaled(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor | None:
    """Batch normalisation as an affine map; None while it learns."""
    if training or running_mean is None or running_var is None:
        return None
    scale = torch.rsqrt(running_var + eps) * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - running_mean * scale
    shape = (1, -1, *[1] * (input.ndim - 2))
    return input * scale.view(shape) + shift.view(shape)


def _arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    return input, weight, bias
