"""Constraints hold in every search."""

from __future__ import annotations

import itertools

from captrial.decoding import (
    EOS,
    BeamSettings,
    NoBadEnding,
    NoImmediateRepeat,
    NoRepeatedNgram,
    SamplingSettings,
    Suppress,
    beam_search,
    greedy,
    sample,
)
from decoding.bigram_model import Bigrams


def test_constraints_hold() -> None:
    model = Bigrams(40, 4, words=20)  # enough words that a rule never leaves nothing to say
    rules = [NoImmediateRepeat(), NoRepeatedNgram(2), NoBadEnding((3,)), Suppress((5,))]
    for found in (
        beam_search(model, model.memory, BeamSettings(beam=3, max_words=12, constraints=rules)),
        greedy(model, model.memory, max_words=12, constraints=rules),
        sample(model, model.memory, SamplingSettings(samples=4, max_words=12, constraints=rules)),
    ):
        for caption in found.captions():
            for words in caption:
                pairs = list(itertools.pairwise(words))
                assert len(set(pairs)) == len(pairs)
                assert all(a != b for a, b in pairs)
                assert 5 not in words
        before_end = found.tokens[..., :-1][found.tokens[..., 1:] == EOS]
        assert len(before_end)
        assert 3 not in before_end
