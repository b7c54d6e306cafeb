"""Greedy decoding and sampling over any `StepModel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from captrial.decoding.constraints import NEVER, Constraint, apply
from captrial.decoding.protocol import (
    BOS,
    EOS,
    PAD,
    Decoded,
    StepModel,
    first_tensor,
    pick_hypotheses,
    pick_images,
    require_positive,
)

Choose = Callable[[Tensor], Tensor]  # log-probabilities (b, n, words) -> words (b, n)


@dataclass(frozen=True)
class SamplingSettings:
    """How captions are drawn."""

    samples: int = 1  # captions an image
    temperature: float = 1.0  # below 1 the distribution is sharpened
    top_k: int | None = None  # draw among the k most probable words only
    top_p: float | None = None  # draw among the fewest words whose probability reaches p
    max_words: int = 20
    constraints: Iterable[Constraint] = ()
    trace: bool = False  # keep the attention


def greedy(
    model: StepModel,
    memory: Any,
    *,
    max_words: int = 20,
    constraints: Iterable[Constraint] = (),
    trace: bool = False,
) -> Decoded:
    """The most probable word at every step, one caption an image; `trace` keeps the attention."""
    settings = SamplingSettings(max_words=max_words, constraints=constraints, trace=trace)
    return _decode(model, memory, settings, lambda log_probs: log_probs.argmax(-1))


def sample(
    model: StepModel, memory: Any, settings: SamplingSettings | None = None, generator: torch.Generator | None = None
) -> Decoded:
    """Draw captions from the model's distribution, sharpened or truncated as the settings ask.

    The log-probabilities returned are the model's, not those of the sharpened distribution.
    """
    settings = settings or SamplingSettings()
    top_k, top_p, temperature = settings.top_k, settings.top_p, settings.temperature
    require_positive(samples=settings.samples, temperature=temperature, top_k=top_k, top_p=top_p)

    def draw(log_probs: Tensor) -> Tensor:
        scaled = _truncate(log_probs / temperature, top_k, top_p)
        flat = scaled.softmax(-1).flatten(0, 1)
        return torch.multinomial(flat, 1, generator=generator).view(log_probs.shape[:2])

    return _decode(model, memory, settings, draw)


def _truncate(scores: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Keep the `top_k` best words, or the fewest whose probability reaches `top_p`."""
    if top_k is not None:
        lowest = scores.topk(min(top_k, scores.shape[-1]), -1).values[..., -1:]
        scores = scores.masked_fill(scores < lowest, NEVER)
    if top_p is not None:
        ranked, order = scores.sort(-1, descending=True)
        before = ranked.softmax(-1).cumsum(-1) - ranked.softmax(-1)  # probability of the better words
        scores = scores.masked_fill((before >= top_p).gather(-1, order.argsort(-1)), NEVER)
    return scores


@torch.no_grad()
def _decode(model: StepModel, memory: Any, settings: SamplingSettings, choose: Choose) -> Decoded:
    """Extend the captions of each image until all have ended; images that are done leave the batch."""
    captions, max_words, rules = settings.samples, settings.max_words, tuple(settings.constraints)
    require_positive(max_words=max_words)
    images, device = len(first_tensor(memory)), first_tensor(memory).device
    state = pick_hypotheses(model.start(memory), torch.zeros(images, captions, dtype=torch.long, device=device))
    tokens = torch.full((images, captions, max_words), PAD, dtype=torch.long, device=device)
    log_probs = torch.zeros(images, captions, max_words, device=device)
    traced: Tensor | None = None
    rows = torch.arange(images, device=device)
    last = torch.full((images, captions), BOS, dtype=torch.long, device=device)
    ended = torch.zeros_like(last, dtype=torch.bool)
    for position in range(max_words):
        logits, state, attention = model.step(last, state, memory)
        scores = apply(rules, tokens[rows, :, :position], torch.log_softmax(logits.float(), -1))
        last = choose(scores).masked_fill(ended, PAD)
        tokens[rows, :, position] = last
        log_probs[rows, :, position] = scores.gather(-1, last.unsqueeze(-1)).squeeze(-1).masked_fill(ended, 0.0)
        if settings.trace and attention is not None:
            if traced is None:
                traced = attention.new_zeros(images, captions, max_words, attention.shape[-1])
            traced[rows, :, position] = attention.masked_fill(ended.unsqueeze(-1), 0.0)
        ended = ended | (last == EOS)
        alive = (~ended.all(1)).nonzero().squeeze(1)
        if len(alive) == 0:
            break
        if len(alive) < len(rows):
            rows, last, ended, state, memory = pick_images((rows, last, ended, state, memory), alive)
    length = position + 1
    return Decoded(
        tokens[..., :length],
        log_probs.sum(-1),
        log_probs[..., :length],
        None if traced is None else traced[:, :, :length],
    )
