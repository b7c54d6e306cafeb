"""Attention of decoder-only VLMs to their image tokens: plain, rolled out, and weighted by gradients.

A word is predicted at the position of the token before it; what that position attends to is the word's attention. All
words share one pass; gradients of attention weights take one backward pass a word. A layer keeps of its attention only
what the method needs: the rows of the caption and columns of the image, or the mean over heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from captrial.attribution.attribution import Attribution
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets, empty_attribution, is_empty
from captrial.captioners.protocols import ImageTokensLike, LayerAttention
from captrial.errors import InputError


def attribute_attention(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """Attention to the image tokens: of a layer or all, of a head or all; the mean over a word's tokens."""
    seen = _tokens(subject, "attention")
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "attention")
    targets = targets.to(subject.inputs.device)
    queries, places = seen.queries(targets.tokens.shape[1]), seen.places

    def keep(layer: LayerAttention) -> LayerAttention | None:
        if not _covers(layer, queries, places):
            return None  # attention within an encoder, or within the caption
        chosen = torch.stack(_pick(list(layer.weights[0]), settings.head, "head")).mean(0)
        return LayerAttention(chosen[queries - layer.row][:, places - layer.column])

    _, layers = seen.attend(targets.tokens[0], keep)
    chosen = torch.stack(_pick([layer.weights for layer in layers], settings.layer, "layer"))  # (layers, t, places)
    return _attribution(subject, targets, "attention", targets.merge(chosen.mean(0).float()))


def attribute_rollout(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """Attention rollout (Abnar and Zuidema 2020): half of every position is itself, half what it attended to."""
    seen = _tokens(subject, "rollout")
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, "rollout")
    targets = targets.to(subject.inputs.device)
    _, layers = seen.attend(targets.tokens[0], lambda layer: layer._replace(weights=layer.weights[0].mean(0)))
    rows = _start(seen.queries(targets.tokens.shape[1]))  # (t, length)
    for layer in reversed(layers):
        own, attended = _spans(layer)
        half = rows[:, own] / 2
        rows[:, own] = half
        rows[:, attended] += half @ layer.weights.to(rows)
    return _attribution(subject, targets, "rollout", targets.merge(rows[:, seen.places]))


def attribute_relevance(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """Relevance (Chefer et al. 2021, Eq. 5 and 6): R <- R + mean over heads of (gradient x attention)+ R."""
    name = "attention_x_gradient"
    seen = _tokens(subject, name)
    if is_empty(subject, targets):
        return empty_attribution(subject, targets, name)
    targets = targets.to(subject.inputs.device)
    logits, layers = seen.attend(targets.tokens[0], lambda layer: layer, gradients=True)
    layers = [layer for layer in layers if layer.weights.requires_grad]  # a decoder's first sees the caption only
    weights = [layer.weights for layer in layers]
    scores = targets.scores(logits)[0]
    start = _start(seen.queries(targets.tokens.shape[1]))
    found = []
    for word, row in enumerate(targets.merge(start)):
        gradients = torch.autograd.grad(scores[word], weights, retain_graph=word + 1 < len(targets))
        for layer, gradient in zip(reversed(layers), reversed(gradients), strict=True):
            own, attended = _spans(layer)
            relevant = (layer.weights.detach() * gradient)[0].clamp(min=0).mean(0)  # (rows, columns)
            row[attended] += row[own] @ relevant.to(row)
        found.append(row[seen.places])
    return _attribution(subject, targets, name, torch.stack(found))


def _tokens(subject: Subject, method: str) -> ImageTokensLike:
    if subject.image_tokens is None:
        raise InputError(
            f"{method} of one caption follows the image tokens of a VLM's decoder, which this captioner does not have; "
            "use attention or integrated_gradients"
        )
    return subject.image_tokens


def _start(queries: Tensor) -> Tensor:
    """One row (t, length) for every token: 1 at the position that predicts it."""
    rows = torch.zeros(len(queries), int(queries[-1]) + 1, device=queries.device)
    rows[torch.arange(len(queries)), queries] = 1
    return rows


def _spans(layer: LayerAttention) -> tuple[slice, slice]:
    """The positions that attend in a layer, and those that are attended to."""
    rows, columns = layer.weights.shape[-2:]
    return slice(layer.row, layer.row + rows), slice(layer.column, layer.column + columns)


def _covers(layer: LayerAttention, queries: Tensor, places: Tensor) -> bool:
    """Whether the caption attends to the image in a layer."""
    own, attended = _spans(layer)
    return bool(own.start <= int(queries[0]) < own.stop and attended.start <= int(places[0]) < attended.stop)


def _pick(parts: Sequence[Tensor], number: int | None, kind: str) -> list[Tensor]:
    """All parts, or the one of that number, from 1 or, if negative, from the last."""
    if number is None:
        return list(parts)
    if not 1 <= abs(number) <= len(parts):
        raise InputError(f"{kind} {number}: this model has {kind}s 1 to {len(parts)}")
    return [parts[number - 1 if number > 0 else number]]


def _attribution(subject: Subject, targets: Targets, method: str, scores: Tensor) -> Attribution:
    assert subject.image_tokens is not None
    boxes, grid = subject.input_boxes()
    values = subject.image_tokens.spread(scores.detach().float()).cpu().numpy()
    return Attribution(targets.words, values, boxes, method, grid=grid, window=subject.window)
