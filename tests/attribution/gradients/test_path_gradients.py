"""Gradients of all words at once, against one pass a word and finite differences, for all architectures."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attribution.small_captioners import subject_of, targets_of
from captrial.attribution.gradients import path_gradients
from captrial.attribution.gradients.path_gradients import PathGradients, input_gradients
from captrial.attribution.integrated_gradients.integration import gauss_legendre
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings, attribute
from captrial.attribution.methods.saliency import gradients_times_input
from captrial.attribution.subject import Subject, Targets, word_targets
from captrial.captioners import ARCHITECTURES
from captrial.captioners.protocols import TokenLogits, WordSpan
from captrial.errors import InputError


@pytest.fixture(params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


def naive_gradients(subject: Subject, at: Tensor) -> Tensor:
    """One forward and one backward pass a word."""
    targets, rows = targets_of(), []
    for word in range(len(targets)):
        x = at.clone().requires_grad_()
        score = targets.scores(subject.forward(x.unsqueeze(0), targets.tokens).logits)[0, word]
        rows.append(torch.autograd.grad(score, x)[0])
    return torch.stack(rows)


def test_all_words_at_once_equal_a_pass_a_word(subject: Subject) -> None:
    plain = naive_gradients(subject, subject.inputs)
    assert torch.allclose(input_gradients(subject, targets_of()), plain, atol=1e-12)
    times = gradients_times_input(subject, targets_of())
    assert torch.allclose(times, plain * subject.inputs, atol=1e-12)


def test_a_large_vocabulary_takes_fewer_words_at_a_time(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of the logits are bounded, and the numbers stay."""
    targets: Targets = targets_of()
    most: list[int] = []
    plain, pull = input_gradients(subject, targets), path_gradients.pull_back

    def watched(outputs: Any, inputs: Any, wanted: Any, together: bool = True) -> Any:
        most.append(max(len(part) for part in wanted))
        return pull(outputs, inputs, wanted, together)

    monkeypatch.setattr(path_gradients, "pull_back", watched)
    monkeypatch.setattr(path_gradients, "MOST_LOGITS", 1)
    assert torch.allclose(input_gradients(subject, targets), plain, atol=1e-12)
    assert set(most) == {1}


def test_gradients_agree_with_finite_differences(subject: Subject) -> None:
    gradient, targets = input_gradients(subject, targets_of()), targets_of()
    direction = torch.randn(subject.inputs.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    step = 1e-6
    ends = torch.stack([subject.inputs - step * direction, subject.inputs + step * direction])
    scores = targets.scores(subject.forward(ends, targets.tokens).logits)
    assert torch.allclose(
        (gradient * direction).sum((1, 2)), (scores[1] - scores[0]) / (2 * step), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("chunk", [1, 4, 7, 1000])
@pytest.mark.parametrize("shortcuts", [True, False])
def test_chunks_and_shortcuts_change_nothing(chunk: int, shortcuts: bool) -> None:
    subject = subject_of("top_down")
    rule = gauss_legendre(5)
    expected = sum(
        weight * naive_gradients(subject, alpha * subject.inputs)
        for alpha, weight in zip(rule.alphas, rule.weights, strict=True)
    )
    settings = AttributionSettings(steps=5, rule="gauss_legendre", chunk=chunk, shortcuts=shortcuts)
    found = integrated_gradients(subject, targets_of(), settings)
    assert torch.allclose(found.attribution, expected * subject.inputs, atol=1e-12)


def test_scores_that_are_not_finite_are_refused() -> None:
    subject = subject_of("transformer")
    broken = Subject(subject.inputs * torch.nan, subject.encode, subject.decode)
    with pytest.raises(InputError, match="not finite"):
        attribute(broken, targets_of())


def test_shortcuts_that_would_be_wrong_are_not_taken() -> None:
    """A hidden layer as wide as the vocabulary must not be cut to the words asked about."""
    subject = subject_of("transformer")
    mix = nn.Linear(23, 23, bias=False).double()
    strange = Subject(
        subject.inputs, subject.encode, lambda m, t: TokenLogits(mix(torch.tanh(mix(subject.decode(m, t).logits))))
    )
    path = PathGradients(strange, targets_of(), torch.zeros_like(subject.inputs), 64)
    assert path.vocabulary is None
    assert torch.allclose(input_gradients(strange, targets_of()), naive_gradients(strange, strange.inputs), atol=1e-12)


def test_fixed_batch_normalisation_is_a_scale() -> None:
    torch.manual_seed(0)
    eye = nn.Sequential(nn.Conv2d(3, 4, 2, 2), nn.BatchNorm2d(4), nn.ReLU6(), nn.Flatten(), nn.Linear(16, 5)).double()
    eye(torch.randn(20, 3, 4, 4).double())  # statistics of its own
    eye.eval()
    subject = Subject(torch.randn(3, 4, 4).double(), eye, lambda memory, tokens: TokenLogits(memory[:, None, None]))
    targets = word_targets([3], [WordSpan("w", 0, 1)])
    plain = input_gradients(subject, targets, settings=AttributionSettings(shortcuts=False))
    assert torch.allclose(input_gradients(subject, targets), plain, atol=1e-14)
    assert plain.abs().sum() > 0
