"""Beam search over any `StepModel`: batched and exact; images that are done cost nothing.

A hypothesis that ends leaves the beam for its image's pool of finished captions, so the beam stays full. An image stops
as soon as no live hypothesis can beat its pool; its rows then leave the batch. Memory is never copied for the
hypotheses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
    require_beam,
    require_positive,
)


@dataclass(frozen=True)
class BeamSettings:
    """How wide a beam search is, how captions are ranked and what they may contain."""

    beam: int = 5  # hypotheses an image
    keep: int = 1  # captions returned an image
    max_words: int = 20
    length_power: float = 0.0  # captions are ranked by their summed log-probability / length ** length_power
    constraints: Iterable[Constraint] = ()
    trace: bool = False  # keep the attention


@torch.no_grad()
def beam_search(model: StepModel, memory: Any, settings: BeamSettings | None = None) -> Decoded:
    """The `keep` best captions of every image, best first."""
    return diverse_beam_search(model, memory, settings, groups=1)


@torch.no_grad()
def diverse_beam_search(
    model: StepModel, memory: Any, settings: BeamSettings | None = None, *, groups: int, diversity: float = 0.5
) -> Decoded:
    """Beam search in `groups`, each of `settings.beam` hypotheses (Vijayakumar et al. 2018).

    A group avoids the words that earlier groups chose at the same step: each such word costs `diversity`. Returns
    `groups * keep` captions an image, group by group.
    """
    settings = settings or BeamSettings()
    require_beam(settings.beam)
    require_positive(groups=groups, keep=settings.keep, max_words=settings.max_words)
    settings = replace(settings, constraints=tuple(settings.constraints))
    searches = [_Beam(model, memory, settings, diversity) for _ in range(groups)]
    for _ in range(settings.max_words):
        chosen: list[Tensor] = []
        for search in searches:
            if search.alive():
                search.advance(chosen)
                if groups > 1:
                    chosen.append(search.chosen_words())
    found = [search.result() for search in searches]
    return found[0] if groups == 1 else _side_by_side(found)


class _Hypotheses(NamedTuple):
    """Some captions of each image: scores (b, n) and tokens with what belongs to them, (b, n, t, ...)."""

    score: Tensor
    tokens: Tensor
    log_probs: Tensor
    attention: Tensor | None


class _Candidates(NamedTuple):
    """Continuations of each image's hypotheses: all (b, c)."""

    score: Tensor
    parent: Tensor
    word: Tensor
    log_prob: Tensor


class _Beam:
    """One group of hypotheses. `rows` maps the images still alive to the images asked for."""

    def __init__(self, model: StepModel, memory: Any, settings: BeamSettings, diversity: float) -> None:
        self.model, self.memory, self.state = model, memory, model.start(memory)
        self.settings, self.diversity = settings, diversity
        images, device = len(first_tensor(memory)), first_tensor(memory).device
        self.images = images
        self.rows = torch.arange(images, device=device)
        self.last = torch.full((images, 1), BOS, dtype=torch.long, device=device)
        empty = torch.zeros(images, 1, 0, device=device)
        self.live = _Hypotheses(torch.zeros(images, 1, device=device), empty.long(), empty, None)
        self.finished: _Hypotheses | None = None  # of the images alive, (b, keep); tokens padded to max_words
        self.results: list[tuple[Tensor, _Hypotheses]] = []

    def alive(self) -> bool:
        return len(self.rows) > 0

    def advance(self, chosen: list[Tensor]) -> None:
        """Add one word; words that earlier groups chose, `chosen` (all images, n), become less likely."""
        logits, state, attention = self.model.step(self.last, self.state, self.memory)
        log_probs = apply(self.settings.constraints, self.live.tokens, torch.log_softmax(logits.float(), -1))
        best = self._candidates(log_probs, chosen)
        if self.live.tokens.shape[-1] + 1 == self.settings.max_words:
            self._collect(self._extended(best, attention), torch.ones_like(best.word, dtype=torch.bool))
            self._leave(torch.ones_like(self.rows, dtype=torch.bool))
            return
        ended = best.word == EOS
        if ended.any():
            among_best = torch.arange(ended.shape[1], device=ended.device) < self.settings.beam
            self._collect(self._extended(best, attention), ended & among_best)
            continued = torch.sort(ended.to(torch.uint8), dim=1, stable=True).indices  # the best first
            best = best._replace(score=best.score.masked_fill(ended, NEVER))
            best = _Candidates(*(part.gather(1, continued[:, : self.settings.beam]) for part in best))
        else:
            best = _Candidates(*(part[:, : self.settings.beam] for part in best))
        self.live = self._extended(best, attention)
        self.state = pick_hypotheses(state, best.parent)
        self.last = best.word
        if self.finished is not None:
            self._leave(self.finished.score[:, -1] >= self._bound())

    def _candidates(self, log_probs: Tensor, penalised: list[Tensor]) -> _Candidates:
        """The 2 x beam best continuations of each image, best first."""
        ranked = log_probs
        if penalised:
            words = torch.cat(penalised, 1)[self.rows]
            counts = log_probs.new_zeros(len(words), log_probs.shape[-1])
            counts.scatter_add_(1, words, torch.ones_like(words, dtype=counts.dtype))
            ranked = log_probs - self.diversity * counts.unsqueeze(1)
        width = min(2 * self.settings.beam, log_probs.shape[-1])
        best, words = ranked.topk(width, -1)  # (b, n, width)
        total = (self.live.score.unsqueeze(-1) + best).flatten(1)
        score, index = total.topk(min(2 * self.settings.beam, total.shape[1]), -1)
        parent = index // width
        chosen = log_probs.gather(-1, words) if penalised else best
        log_prob = chosen.flatten(1).gather(1, index)
        if penalised:  # ranked with the penalty, scored without it
            score = self.live.score.gather(1, parent) + log_prob
        return _Candidates(score, parent, words.flatten(1).gather(1, index), log_prob)

    def _extended(self, best: _Candidates, attention: Tensor | None) -> _Hypotheses:
        """The hypotheses with their new words."""
        old = pick_hypotheses(self.live, best.parent)
        traced = None
        if self.settings.trace and attention is not None:
            now = pick_hypotheses(attention, best.parent).unsqueeze(2)
            traced = now if old.attention is None else torch.cat([old.attention, now], 2)
        return _Hypotheses(
            best.score,
            torch.cat([old.tokens, best.word.unsqueeze(-1)], -1),
            torch.cat([old.log_probs, best.log_prob.unsqueeze(-1)], -1),
            traced,
        )

    def _collect(self, candidates: _Hypotheses, which: Tensor) -> None:
        """Add the hypotheses `which` (b, c) to their images' pools and keep the best of each pool."""
        score = candidates.score / candidates.tokens.shape[-1] ** self.settings.length_power
        new = candidates._replace(score=score.masked_fill(~which, NEVER))
        new = _resized(new, max(new.score.shape[1], self.settings.keep), self.settings.max_words)
        pool = new if self.finished is None else _concatenated([self.finished, new], 1)
        self.finished = pick_hypotheses(pool, pool.score.topk(self.settings.keep, 1).indices)

    def _bound(self) -> Tensor:
        """The best score any live hypothesis could still reach: log-probabilities only fall."""
        longest: float = self.settings.max_words**self.settings.length_power
        return self.live.score.amax(1) / longest

    def _leave(self, done: Tensor) -> None:
        """Store the results of images that are done and take their rows out of the batch."""
        if not done.any():
            return
        leaving, staying = done.nonzero().squeeze(1), (~done).nonzero().squeeze(1)
        assert self.finished is not None
        self.results.append((self.rows[leaving], pick_images(self.finished, leaving)))
        self.rows = self.rows[staying]
        parts = (self.memory, self.state, self.last, self.live, self.finished)
        self.memory, self.state, self.last, self.live, self.finished = pick_images(parts, staying)

    def chosen_words(self) -> Tensor:
        """The words chosen at this step, for all images asked for: (images, beam), PAD where none."""
        words = self.last.new_full((self.images, self.settings.beam), PAD)
        words[self.rows, : self.last.shape[1]] = self.last
        return words

    def result(self) -> Decoded:
        """The finished captions in the order of the images, cut to the longest."""
        order = torch.cat([rows for rows, _ in self.results]).argsort()
        found = _emptied(pick_images(_concatenated([found for _, found in self.results], 0), order))
        length = int((found.tokens != PAD).sum(-1).max())
        traced = None if found.attention is None else found.attention[:, :, :length]
        return Decoded(found.tokens[..., :length], found.score, found.log_probs[..., :length], traced)


def _resized(found: _Hypotheses, captions: int, length: int) -> _Hypotheses:
    """Pad to `captions` an image (score -inf) and `length` tokens (PAD)."""

    def grown(tensor: Tensor, fill: float, depth: int) -> Tensor:
        shape = [tensor.shape[0], captions, *([length] if depth > 2 else []), *tensor.shape[3:]]
        result = tensor.new_full(shape, fill)
        result[tuple(slice(size) for size in tensor.shape)] = tensor
        return result

    return _Hypotheses(
        grown(found.score, NEVER, 2),
        grown(found.tokens, PAD, 3),
        grown(found.log_probs, 0.0, 3),
        None if found.attention is None else grown(found.attention, 0.0, 4),
    )


def _emptied(found: _Hypotheses) -> _Hypotheses:
    """Captions that were forbidden (score -inf) without their words: they only filled the beam."""
    never = (found.score == NEVER).unsqueeze(-1)
    return found._replace(
        tokens=found.tokens.masked_fill(never, PAD),
        log_probs=found.log_probs.masked_fill(never, 0.0),
        attention=None if found.attention is None else found.attention.masked_fill(never.unsqueeze(-1), 0.0),
    )


def _concatenated(parts: Sequence[_Hypotheses], axis: int) -> _Hypotheses:
    """Join along images (axis 0) or captions (axis 1)."""
    joined = [None if column[0] is None else torch.cat(column, axis) for column in zip(*parts, strict=True)]
    return _Hypotheses(*joined)  # type: ignore[arg-type]


def _side_by_side(found: list[Decoded]) -> Decoded:
    """The captions of several groups as one result."""
    length = max(part.tokens.shape[-1] for part in found)
    parts = [_Hypotheses(part.scores, part.tokens, part.log_probs, part.attention) for part in found]
    joined = _concatenated([_resized(part, part.score.shape[1], length) for part in parts], 1)
    return Decoded(joined.tokens, joined.score, joined.log_probs, joined.attention)
