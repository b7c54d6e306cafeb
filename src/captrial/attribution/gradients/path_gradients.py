"""Gradients of all words at once along a straight path between two inputs.

The encoder of a model is shared by all words. Scores are first pulled back through the decoder to the encoded image
(all words in one batched backward pass), and from there through the encoder: in another batched pass, or word by word
if there is a backbone to go through. Nothing is encoded twice, and at most `chunk` pairs of a point and a word are in
flight at a time.

`Shortcuts` makes three exact savings without knowing the model. A torch function mode watches `linear` layers: the
first one, applied to the points of the path, is affine in the path's parameter and is computed once instead of once a
point; the last one, onto the vocabulary, is computed only for the words that are explained (other logits read 0).
Batch normalisation with fixed statistics is a multiplication and an addition, and its gradient one multiplication.
Backward passes profit most: gradients are summed over the points before the wide first layer, and never spread over
the vocabulary. `PathGradients` compares scores with and without these savings before relying on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from captrial.attribution.gradients.relus import AveragedRelus, RecordedRelus
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets
from captrial.decoding.protocol import map_tensors
from captrial.errors import InputError

NO_GRADIENTS = "this captioner gives no gradients (it detaches its input); use method='occlusion'"

MOST_LOGITS = 2**27  # at a time: with large vocabularies they and their gradients are most of the memory


class PathPoints(NamedTuple):
    """Scores of `w` words at `m` points of a path, and their gradients."""

    scores: Tensor  # (m, w)
    slopes: Tensor  # (m, w): dS/d alpha, the derivative along the path
    gradient: Tensor  # (w, *input): the weighted sum of the gradients over the points


class PathGradients:
    """The scores of some words, and their gradients, along the path from `start` to the subject's input."""

    def __init__(self, subject: Subject, targets: Targets, start: Tensor, chunk: int, shortcuts: bool = True) -> None:
        self.subject, self.targets, self.start = subject, targets.to(subject.inputs.device), start
        self.direction = subject.inputs - start
        self.chunk = max(1, chunk)
        self.vocabulary: int | None = None
        self.logits = 1  # numbers in the logits of one point
        self.ends = self._end_scores(shortcuts)  # (2, w)

    @torch.no_grad()
    def _end_scores(self, shortcuts: bool) -> Tensor:
        """Scores at both ends; shortcuts are taken only if they change neither."""
        path = self._path([0.0, 1.0], track=False)
        logits = self.subject.forward(path.points, self.targets.tokens).logits
        self.logits = max(1, logits[0].numel())
        ends = self.targets.scores(logits)
        if not ends.isfinite().all():
            raise InputError("the captioner's scores of this caption are not finite; nothing can be attributed")
        if shortcuts:
            self.vocabulary = logits.shape[-1]
            short = self._scores(path)[0]
            if not torch.allclose(short, ends, rtol=1e-3, atol=1e-3 * float(ends.abs().max())):
                self.vocabulary = None
        return ends

    def scores(self, alphas: Tensor) -> Tensor:
        """Scores (m, w) at some points, without gradients."""
        rows = max(1, min(self.chunk // 2, MOST_LOGITS // self.logits))
        with torch.no_grad():
            return torch.cat([self._scores(self._path(part, track=False))[0] for part in torch.split(alphas, rows)])

    def pull(self, alphas: Tensor, weights: Tensor, ends: Tensor | None = None) -> PathPoints:
        """Gradients of all words, summed over the points with `weights`; points beyond `chunk` in several passes.

        With `ends` (m + 1,) of the segments that the points stand for, ReLUs take their mean derivative over them.
        """
        points = max(1, min(self.chunk // max(1, len(self.targets)), MOST_LOGITS // self.logits))
        parts = []
        for first in range(0, len(alphas), points):
            some = slice(first, first + points)
            with nullcontext() if ends is None else self._averaged(ends[first : first + points + 1]):
                parts.append(self._pull(alphas[some], weights[some]))
        gradient = parts[0].gradient
        for part in parts[1:]:
            gradient += part.gradient
        return PathPoints(torch.cat([part.scores for part in parts]), torch.cat([p.slopes for p in parts]), gradient)

    @torch.no_grad()
    def _averaged(self, ends: Tensor) -> AveragedRelus:
        with RecordedRelus() as recorded:
            self._scores(self._path(ends, track=False))
        return AveragedRelus(recorded.inputs, len(ends) - 1)

    def _pull(self, alphas: Tensor, weights: Tensor) -> PathPoints:
        path = self._path(alphas)
        scores, memory, cut = self._scores(path)
        if not cut or not scores.requires_grad:
            raise InputError(NO_GRADIENTS)
        weights = weights.to(scores)
        slopes, gradients = [], []
        batch = max(1, min(self.chunk, MOST_LOGITS // (len(alphas) * self.logits)))
        for words in torch.split(torch.arange(len(self.targets)), batch):
            pulled = self._pull_words(path, scores, memory, cut, weights, words)
            gradients.append(pulled[0])
            slopes.append(pulled[1] / weights)
        return PathPoints(scores.detach(), torch.cat(slopes).T, torch.cat(gradients))

    def _pull_words(
        self,
        path: StraightPath,
        scores: Tensor,
        memory: list[Tensor],
        cut: list[Tensor],
        weights: Tensor,
        words: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Gradients (words, *input) and derivatives along the path (words, m) of some words."""
        wanted = torch.zeros(len(words), *scores.shape, dtype=scores.dtype, device=scores.device)
        wanted[torch.arange(len(words)), :, words] = weights  # (words, m, w)
        reached = [
            (tensor, gradient)
            for tensor, gradient in zip(memory, pull_back([scores], cut, [wanted]), strict=True)
            if gradient is not None
        ]
        gradient, slopes = pull_back(
            [tensor for tensor, _ in reached],
            [path.offset, path.alphas],
            [gradient for _, gradient in reached],
            together=not self.subject.is_pixels,
        )
        if gradient is None or slopes is None:
            raise InputError(NO_GRADIENTS)
        return gradient, slopes

    def _scores(self, path: StraightPath) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Scores (m, w), and the encoded image twice: in the encoder's graph, and detached for the decoder."""
        memory: list[Tensor] = []
        cut: list[Tensor] = []

        def detach(tensor: Tensor) -> Tensor:
            if not tensor.requires_grad:
                return tensor
            memory.append(tensor)
            cut.append(tensor.detach().requires_grad_())
            return cut[-1]

        with self._shortcuts(path), sdpa_kernel(SDPBackend.MATH):  # fused attention has no batched backward pass
            encoded = self.subject.encode(path.points)
            output = self.subject.decode(map_tensors(encoded, detach), self.targets.tokens)
        return self.targets.scores(output.logits), memory, cut

    def _shortcuts(self, path: StraightPath) -> AbstractContextManager[Any]:
        if self.vocabulary is None:
            return nullcontext()
        tokens = torch.unique(self.targets.token) if self.targets.kind == "logit" else None
        return Shortcuts(path, tokens, self.vocabulary)

    def _path(self, alphas: Tensor | Sequence[float], track: bool = True) -> StraightPath:
        alphas = torch.as_tensor(alphas, dtype=self.start.dtype, device=self.start.device)
        return StraightPath(self.start, self.direction, alphas, track)


def input_gradients(subject: Subject, targets: Targets, settings: AttributionSettings | None = None) -> Tensor:
    """Gradients (w, *input) at the image; signed."""
    path = zero_path(subject, targets, settings or AttributionSettings())
    here = torch.ones(1, dtype=path.start.dtype, device=path.start.device)
    return path.pull(here, here).gradient


def zero_path(subject: Subject, targets: Targets, settings: AttributionSettings) -> PathGradients:
    """The path from the all-zero input to the image."""
    if not torch.is_floating_point(subject.inputs):
        raise InputError("gradients need floating-point input; use method='occlusion'")
    start = torch.zeros_like(subject.inputs)
    return PathGradients(subject, targets, start, settings.rows(subject), settings.shortcuts)


def pull_back(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], wanted: Sequence[Tensor], together: bool = True
) -> Sequence[Tensor | None]:
    """Vector-Jacobian products of several vectors: `wanted` (v, *output) -> (v, *input) for every input.

    None for an input that no output depends on. `together` in one batched pass: less than half the time of one after
    the other through attention and LSTMs, but more than twice through convolutions (measured).
    """
    if together:
        with suppress(RuntimeError):  # an operation of another library that cannot be batched: one after the other
            return torch.autograd.grad(
                outputs, inputs, wanted, retain_graph=True, is_grads_batched=True, allow_unused=True
            )
    rows = [
        torch.autograd.grad(outputs, inputs, [part[vector] for part in wanted], retain_graph=True, allow_unused=True)
        for vector in range(len(wanted[0]))
    ]
    return [None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True)]


# The path, and savings along it ---------------------------------------------------------------------------------------


class StraightPath:
    """Points `start + alpha * direction + offset`; `offset` is zero, there to be differentiated."""

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
    """Inside `with Shortcuts(path, tokens, vocabulary):` the savings are made."""

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
    """Only the last saving: batch normalisation with fixed statistics as a scale."""

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
    """Batch normalisation as an affine map; None in training."""
    if training or running_mean is None or running_var is None:
        return None
    scale = torch.rsqrt(running_var + eps) * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - running_mean * scale
    shape = (1, -1, *[1] * (input.ndim - 2))
    return input * scale.view(shape) + shift.view(shape)


def _arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    return input, weight, bias
