"""Gradients of all words at once: one forward pass, then words pulled back together.

The image part of a model is shared by all words. Scores are first pulled back through the decoder to the encoded
image (all words in one batched backward pass), and from there through the encoder: in another, or word by word where
there is a backbone to go through. Nothing is encoded twice, and no more than `chunk` pairs of a point and a word are in
flight at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from captrial.attribution.integrated_gradients.shortcuts import Shortcuts, StraightPath
from captrial.attribution.methods.relus import AveragedRelus, RecordedRelus
from captrial.attribution.subject import Subject
from captrial.attribution.targets import Targets
from captrial.decoding.trees import map_tensors
from captrial.errors import InputError

NO_GRADIENTS = "this captioner gives no gradients (it detaches its input); use method='occlusion'"


class Pulled(NamedTuple):
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
        self.ends = self._look_at_ends(shortcuts)  # (2, w)

    @torch.no_grad()
    def _look_at_ends(self, shortcuts: bool) -> Tensor:
        """Scores at both ends; shortcuts are taken later only if they change neither."""
        path = self._path([0.0, 1.0], track=False)
        logits = self.subject.hear(path.points, self.targets.tokens).logits
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
        rows = max(1, self.chunk // 2)
        with torch.no_grad():
            return torch.cat([self._scores(self._path(part, track=False))[0] for part in torch.split(alphas, rows)])

    def pull(self, alphas: Tensor, weights: Tensor, ends: Tensor | None = None) -> Pulled:
        """Gradients of all words, summed over the points with `weights`; points beyond `chunk` in several goes.

        With `ends` (m + 1,) of the stretches that the points stand for, ReLUs take their mean derivative over them.
        """
        points = max(1, self.chunk // max(1, len(self.targets)))
        parts = []
        for first in range(0, len(alphas), points):
            some = slice(first, first + points)
            with nullcontext() if ends is None else self._averaged(ends[first : first + points + 1]):
                parts.append(self._pull(alphas[some], weights[some]))
        gradient = parts[0].gradient
        for part in parts[1:]:
            gradient += part.gradient
        return Pulled(torch.cat([part.scores for part in parts]), torch.cat([p.slopes for p in parts]), gradient)

    @torch.no_grad()
    def _averaged(self, ends: Tensor) -> AveragedRelus:
        with RecordedRelus() as recorded:
            self._scores(self._path(ends, track=False))
        return AveragedRelus(recorded.inputs, len(ends) - 1)

    def _pull(self, alphas: Tensor, weights: Tensor) -> Pulled:
        path = self._path(alphas)
        scores, memory, cut = self._scores(path)
        if not cut or not scores.requires_grad:
            raise InputError(NO_GRADIENTS)
        weights = weights.to(scores)
        slopes, gradients = [], []
        for words in torch.split(torch.arange(len(self.targets)), self.chunk):
            pulled = self._pull_words(path, scores, memory, cut, weights, words)
            gradients.append(pulled[0])
            slopes.append(pulled[1] / weights)
        return Pulled(scores.detach(), torch.cat(slopes).T, torch.cat(gradients))

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
        """Scores (m, w), and the encoded image twice: with its history, and cut off as the decoder read it."""
        memory: list[Tensor] = []
        cut: list[Tensor] = []

        def cut_off(tensor: Tensor) -> Tensor:
            if not tensor.requires_grad:
                return tensor
            memory.append(tensor)
            cut.append(tensor.detach().requires_grad_())
            return cut[-1]

        with self._shortcuts(path), sdpa_kernel(SDPBackend.MATH):  # fused attention has no batched backward pass
            encoded = self.subject.encode(path.points)
            heard = self.subject.decode(map_tensors(encoded, cut_off), self.targets.tokens)
        return self.targets.scores(heard.logits), memory, cut

    def _shortcuts(self, path: StraightPath) -> AbstractContextManager[Any]:
        if self.vocabulary is None:
            return nullcontext()
        tokens = torch.unique(self.targets.token) if self.targets.kind == "logit" else None
        return Shortcuts(path, tokens, self.vocabulary)

    def _path(self, alphas: Tensor | Sequence[float], track: bool = True) -> StraightPath:
        alphas = torch.as_tensor(alphas, dtype=self.start.dtype, device=self.start.device)
        return StraightPath(self.start, self.direction, alphas, track)


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
