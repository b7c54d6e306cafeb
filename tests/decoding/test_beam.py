"""Beam search against brute force, on a model small enough to enumerate every caption."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from captrial.decoding import BOS, EOS, PAD, BeamSettings, Suppress, beam_search, diverse_beam_search, greedy
from decoding.bigram_model import WORDS, Bigrams

LENGTH = 4


def log_prob(model: Bigrams, image: int, words: tuple[int, ...]) -> float:
    before, last, total = BOS, BOS, 0.0
    for word in words:
        total += float(torch.log_softmax(model.table[image, before, last], -1)[word])
        before, last = last, word
    return total


def all_captions(length: int = LENGTH) -> list[tuple[int, ...]]:
    """Every caption: words then EOS, or `length` words without an end."""
    words = range(EOS + 1, WORDS)
    ended = [(*said, EOS) for n in range(length) for said in itertools.product(words, repeat=n)]
    return ended + list(itertools.product(words, repeat=length))


@pytest.mark.parametrize("power", [0.0, 0.7])
def test_full_width_beam_is_exhaustive_search(power: float) -> None:
    model = Bigrams(5)
    found = beam_search(model, model.memory, BeamSettings(beam=200, keep=3, max_words=LENGTH, length_power=power))
    for image in range(5):
        ranked = sorted(all_captions(), key=lambda words: -log_prob(model, image, words) / len(words) ** power)
        for place in range(3):
            said = tuple(token for token in found.tokens[image, place].tolist() if token != PAD)
            assert said == ranked[place]
            expected = log_prob(model, image, said) / len(said) ** power
            assert float(found.scores[image, place]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_beam_of_one_is_greedy(seed: int) -> None:
    model = Bigrams(20, seed)
    by_beam = beam_search(model, model.memory, BeamSettings(beam=1, max_words=8, trace=True))
    by_hand = greedy(model, model.memory, max_words=8, trace=True)
    assert torch.equal(by_beam.tokens, by_hand.tokens)
    assert torch.allclose(by_beam.log_probs, by_hand.log_probs)
    assert by_beam.attention is not None
    assert by_hand.attention is not None
    said = by_hand.tokens != PAD
    assert torch.allclose(by_beam.attention[said], by_hand.attention[said])


@pytest.mark.parametrize("keep", [1, 4])
def test_stopping_early_changes_nothing(keep: int) -> None:
    """One image at a time, with nothing to leave the batch for, gives the same captions as all together."""
    model = Bigrams(30, 3)
    together = beam_search(model, model.memory, BeamSettings(beam=4, keep=keep, max_words=8))
    for image in range(30):
        alone = {"table": model.table[image : image + 1], "id": torch.tensor([image])}
        single = beam_search(model, alone, BeamSettings(beam=4, keep=keep, max_words=8))
        length = single.tokens.shape[-1]
        assert torch.equal(single.tokens[0], together.tokens[image, :, :length])
        assert torch.allclose(single.scores[0], together.scores[image])


def test_finished_images_cost_nothing() -> None:
    model = Bigrams(50, 1)
    model.table[:25, :, :, EOS] += 50  # the first half ends at once
    beam_search(model, model.memory, BeamSettings(beam=3, max_words=10))
    assert model.rows_stepped <= 50 + 9 * 25


def test_trace_follows_the_words() -> None:
    """Here attention is the word read, so the trace of a caption is BOS followed by the caption itself."""
    model = Bigrams(10, 2)
    found = beam_search(model, model.memory, BeamSettings(beam=4, keep=4, max_words=6, trace=True))
    assert found.attention is not None
    read = found.attention.argmax(-1)
    for caption, looked in zip(found.tokens.flatten(0, 1).tolist(), read.flatten(0, 1).tolist(), strict=True):
        said = [token for token in caption if token != PAD]
        assert looked[: len(said)] == [BOS, *said[:-1]]


@pytest.mark.parametrize("groups", [1, 2])
def test_forbidden_captions_do_not_fill_the_result(groups: int) -> None:
    """One word may be said: captions of two words are "", "w" and "w w", and more than these are asked for."""
    model = Bigrams(7, 10)
    found = diverse_beam_search(
        model,
        model.memory,
        BeamSettings(beam=4, keep=5, max_words=2, constraints=[Suppress((3, 4))], trace=True),
        groups=groups,
        diversity=0.0,
    )
    assert found.attention is not None
    for image in range(7):
        for group in range(groups):
            places = slice(5 * group, 5 * group + 5)
            said = [tuple(caption) for caption in found.tokens[image, places].tolist()]
            assert set(said[:3]) == {(EOS, PAD), (5, EOS), (5, 5)}
            assert said[3:] == [(PAD, PAD)] * 2
            assert found.scores[image, places].isfinite().tolist() == [True] * 3 + [False] * 2
    nothing = found.tokens == PAD
    assert (found.log_probs[nothing] == 0).all()
    assert (found.attention[nothing] == 0).all()


def test_diverse_groups_differ() -> None:
    model = Bigrams(20, 8, words=40)
    plain = diverse_beam_search(model, model.memory, BeamSettings(beam=2, max_words=6), groups=3, diversity=0.0)
    diverse = diverse_beam_search(model, model.memory, BeamSettings(beam=2, max_words=6), groups=3, diversity=5.0)
    assert plain.tokens.shape[:2] == diverse.tokens.shape[:2] == (20, 3)

    def distinct(tokens: Tensor) -> float:
        return sum(len({tuple(caption) for caption in row}) for row in tokens.tolist()) / len(tokens)

    assert distinct(plain.tokens) == 1
    assert distinct(diverse.tokens) > 2
