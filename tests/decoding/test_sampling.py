"""Samples follow the distribution of the model, truncated and sharpened as asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from captrial.decoding import (
    BOS,
    EOS,
    PAD,
    BeamSettings,
    Decoded,
    SamplingSettings,
    beam_search,
    diverse_beam_search,
    greedy,
    sample,
)
from captrial.errors import InputError
from decoding.bigram_model import WORDS, Bigrams


def test_samples_follow_the_model() -> None:
    model = Bigrams(1, 5)
    found = sample(
        model, model.memory, SamplingSettings(samples=20000, max_words=1), generator=torch.Generator().manual_seed(0)
    )
    shares = torch.bincount(found.tokens[0, :, 0], minlength=WORDS) / 20000
    allowed = model.table[0, BOS, BOS].clone()
    allowed[[PAD, BOS]] = float("-inf")
    assert torch.allclose(shares, allowed.softmax(-1), atol=0.02)


def test_top_k_and_top_p_cut_the_tail() -> None:
    model = Bigrams(1, 6)
    best = model.table[0, BOS, BOS, EOS:].argmax() + EOS
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-3}):
        found = sample(model, model.memory, SamplingSettings(samples=50, max_words=1, **options))  # type: ignore[arg-type]
        assert (found.tokens == best).all()


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"top_k": 3}, 3),
        ({"top_p": 0.85}, 4),  # three words have 0.8
        ({"top_k": 4, "top_p": 0.82}, 3),  # of the four, three have 0.8 / 0.92
        ({"top_k": 2, "temperature": 0.5}, 2),
    ],
)
def test_sampling_keeps_the_best_words_in_proportion(options: dict[str, Any], left: int) -> None:
    shares = {5: 0.4, EOS: 0.25, 6: 0.15, 3: 0.12, 4: 0.08}  # best first
    model = Bigrams(1, words=7)
    for word, share in shares.items():
        model.table[0, BOS, BOS, word] = math.log(share)
    model.table[0, BOS, BOS, [PAD, BOS]] = 0.0  # likely, and never said
    generator = torch.Generator().manual_seed(1)
    found = sample(model, model.memory, SamplingSettings(samples=20000, max_words=1, **options), generator=generator)
    kept = {word: share ** (1 / options.get("temperature", 1)) for word, share in list(shares.items())[:left]}
    seen = Counter(found.tokens.flatten().tolist())
    expected = {word: share / sum(kept.values()) for word, share in kept.items()}
    assert {word: count / 20000 for word, count in seen.items()} == pytest.approx(expected, abs=0.015)


def test_same_seed_same_samples() -> None:
    model = Bigrams(3, 7)
    a, b = (
        sample(model, model.memory, SamplingSettings(samples=5), generator=torch.Generator().manual_seed(9)).tokens
        for _ in range(2)
    )
    assert torch.equal(a, b)


@pytest.mark.parametrize("number", [0, -1])
def test_settings_that_leave_nothing_to_choose_are_refused(number: int) -> None:
    model = Bigrams(2)
    refused: dict[Callable[..., Decoded], list[str]] = {
        lambda **options: greedy(model, model.memory, **options): ["max_words"],
        lambda **options: sample(model, model.memory, SamplingSettings(**options)): [
            "max_words",
            "samples",
            "temperature",
            "top_k",
            "top_p",
        ],
        lambda **options: beam_search(model, model.memory, BeamSettings(**options)): ["max_words", "beam", "keep"],
        lambda **options: diverse_beam_search(model, model.memory, BeamSettings(beam=2), **options): ["groups"],
    }
    for search, names in refused.items():
        for name in names:
            with pytest.raises(InputError, match=f"^{name}={number} .* above 0$"):
                search(**{name: number})
