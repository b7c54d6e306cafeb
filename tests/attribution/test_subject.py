"""Targets: words of several tokens, contrasts, log-probabilities."""

from __future__ import annotations

import pytest
import torch

from attribution.small_captioners import TOKENS, subject_of, targets_of
from captrial.attribution.gradients.path_gradients import input_gradients
from captrial.attribution.methods.registry import attribute
from captrial.attribution.subject import Subject, word_targets
from captrial.captioners import ARCHITECTURES
from captrial.captioners.protocols import WordSpan


@pytest.fixture(params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


def test_words_of_several_tokens_are_the_sum_of_their_tokens() -> None:
    subject = subject_of("transformer")
    single = input_gradients(subject, targets_of())
    merged = word_targets(TOKENS, [WordSpan("whole", 1, 3), WordSpan("last", 5, 6)])
    found = input_gradients(subject, merged)
    assert torch.allclose(found[0], single[1] + single[2], atol=1e-12)
    assert torch.allclose(found[1], single[5], atol=1e-12)


def test_a_contrast_is_the_difference_of_two_words() -> None:
    subject = subject_of("transformer")
    words = [WordSpan(str(place), place, place + 1) for place in range(len(TOKENS))]
    other = word_targets([*TOKENS[:2], 15], words[:3])
    lead = word_targets(TOKENS, words, {2: [15]})
    assert len(lead.tokens) == 1  # the same sentence is read for both
    expected = input_gradients(subject, targets_of())[2] - input_gradients(subject, other)[2]
    assert torch.allclose(input_gradients(subject, lead)[2], expected, atol=1e-12)
    longer = word_targets(TOKENS, words, {2: [15, 16]})
    both = input_gradients(subject, word_targets([*TOKENS[:2], 15, 16], [WordSpan("two", 2, 4)]))[0]
    expected = input_gradients(subject, targets_of())[2] - both
    assert torch.allclose(input_gradients(subject, longer)[2], expected, atol=1e-12)


def test_log_probabilities_can_be_attributed() -> None:
    subject = subject_of("smart")
    words = [WordSpan(str(place), place, place + 1) for place in range(len(TOKENS))]
    found = attribute(subject, word_targets(TOKENS, words, kind="log_probability"))
    assert found.error is not None
    assert found.error < 0.01
