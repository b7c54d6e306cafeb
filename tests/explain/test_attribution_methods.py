"""Attribution: right for all twelve, complete, bounded, and leaving the model alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from captrial.attribution.gradients.path_gradients import PathGradients, input_gradients
from captrial.attribution.integrated_gradients.integration import gauss_legendre, integrate
from captrial.attribution.methods.guided_backprop import guided_gradients
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings, attribute, gradient_methods
from captrial.attribution.methods.saliency import gradients_times_input
from captrial.attribution.subject import Subject, Targets, find_word, from_features, word_targets
from captrial.captioners import ARCHITECTURES
from captrial.captioners.protocols import TokenLogits, WordSpan
from captrial.errors import InputError
from explain.small import TOKENS, make_features, subject_of, targets_of, tiny


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


def test_integrated_gradients_are_complete_by_default(subject: Subject) -> None:
    found = attribute(subject, targets_of())
    targets = targets_of()
    ends = torch.stack([torch.zeros_like(subject.inputs), subject.inputs])
    scores = targets.scores(subject.forward(ends, targets.tokens).logits).detach().numpy()
    change = scores[1] - scores[0]
    assert found.signed is not None
    scale = np.maximum(np.abs(change), 0.05 * np.abs(change).max())
    assert found.errors == pytest.approx(np.abs(found.signed.sum(1) - change) / scale, abs=1e-9)
    assert found.error is not None
    assert found.error < 0.01
    assert found.changes == pytest.approx(change)


def test_averaged_relus_converge_to_the_same_integral_sooner() -> None:
    subject, targets = subject_of("transformer"), targets_of()
    exact = integrated_gradients(subject, targets, AttributionSettings(steps=160)).attribution

    def error(**options: Any) -> float:
        found = integrated_gradients(subject, targets, AttributionSettings(**options)).attribution
        return float((found - exact).abs().sum() / exact.abs().sum())

    assert error(steps=160, rule="gauss_legendre") < 0.03
    assert error(steps=24) < error(steps=72, rule="gauss_legendre")


def test_a_path_of_given_steps_takes_them() -> None:
    found = attribute(subject_of("smart"), targets_of(), settings=AttributionSettings(steps=7))
    assert found.steps == 7


def test_steps_stop_at_the_most_and_say_so() -> None:
    found = attribute(subject_of("m2"), targets_of(), settings=AttributionSettings(tolerance=1e-12, max_steps=20))
    assert found.steps == 20
    assert found.error is not None
    assert found.error > 1e-12


@pytest.mark.parametrize("method", [*gradient_methods(), "attention"])
def test_one_word_no_word_and_no_element(method: str) -> None:
    captioner = tiny("transformer")
    subject = from_features(captioner, make_features(1))
    one = word_targets([5], [WordSpan("a", 0, 1)])
    none = word_targets([], [])
    empty = from_features(captioner, make_features(1, elements=0))
    assert np.isfinite(attribute(subject, one, method).scores).all()
    assert attribute(subject, none, method).scores.shape == (0, 7)
    assert attribute(empty, targets_of(), method).scores.shape == (len(TOKENS), 0)


def test_a_image_equal_to_the_baseline_gives_zeros_not_nan() -> None:
    subject = subject_of("show_attend_tell")
    blank = Subject(torch.zeros_like(subject.inputs), subject.encode, subject.decode, subject.cells)
    found = attribute(blank, targets_of())
    assert (found.scores == 0).all()
    assert found.errors is not None
    assert (found.errors == 0).all()


def test_the_model_is_untouched() -> None:
    captioner = tiny("transformer")
    before, hooks = copy.deepcopy(captioner.state_dict()), [len(m._backward_hooks) for m in captioner.modules()]
    for method in gradient_methods():
        attribute(from_features(captioner, make_features(1)), targets_of(), method)
    assert all(torch.equal(before[name], tensor) for name, tensor in captioner.state_dict().items())
    assert hooks == [len(m._backward_hooks) for m in captioner.modules()]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in captioner.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in captioner.parameters())
    assert not captioner.training


class Relus(nn.Module):
    """Every way to write a ReLU, between linear layers, as a captioner of one word."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 5)
        self.kind, self.module = kind, nn.ReLU(inplace=kind == "module in place")
        self.double()

    def relu(self, x: Tensor) -> Tensor:
        if self.kind == "in place, result unused":
            x = x + 0
            x.relu_()
            return x
        ways = {
            "functional": functional.relu,
            "method": Tensor.relu,
            "torch": torch.relu,
            "functional in place": lambda y: functional.relu(y, inplace=True),
        }
        return ways.get(self.kind, self.module)(x)  # type: ignore[no-any-return]

    def subject(self) -> Subject:
        inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

        def decode(memory: Tensor, tokens: Tensor) -> TokenLogits:
            return TokenLogits(self.last(self.relu(self.second(memory))).mean(1)[:, None, None])

        return Subject(inputs, lambda x: self.relu(self.first(x)), decode)


def guided_by_hand(model: Relus, inputs: Tensor, token: int) -> Tensor:
    first = model.first(inputs)
    second = model.second(first.relu())
    gradient = (model.last.weight[token] / len(inputs)).expand(len(inputs), -1)
    gradient = (gradient * (second > 0)).clamp(min=0) @ model.second.weight
    return (gradient * (first > 0)).clamp(min=0) @ model.first.weight


@pytest.mark.parametrize(
    "kind",
    ["module", "module in place", "functional", "functional in place", "method", "torch", "in place, result unused"],
)
def test_guided_backpropagation_sees_every_relu(kind: str) -> None:
    model = Relus(kind)
    subject, targets = model.subject(), word_targets([3], [WordSpan("w", 0, 1)])
    guided = guided_gradients(subject, targets)[0]
    assert torch.allclose(guided, guided_by_hand(model, subject.inputs, 3), atol=1e-14)
    assert not torch.allclose(guided, input_gradients(subject, targets)[0])


def test_relu6_is_guided_and_other_activations_are_not() -> None:
    x = torch.tensor([[-1.0, 0.5, 3.0, 7.0]], dtype=torch.float64)
    sign = torch.tensor([1.0, 1.0, -1.0, 1.0], dtype=torch.float64)

    def gradient(activation: nn.Module, method: Callable[[Subject, Targets], Tensor]) -> list[float]:
        def decode(memory: Tensor, tokens: Tensor) -> TokenLogits:
            return TokenLogits((activation(memory + 0) * sign).sum(2)[..., None, None].expand(-1, 1, 1, 2))

        subject = Subject(x, lambda inputs: inputs, decode)
        return method(subject, word_targets([1], [WordSpan("w", 0, 1)]))[0, 0].tolist()

    for relu6 in (nn.ReLU6(), nn.ReLU6(inplace=True), nn.Hardtanh(0, 6)):
        assert gradient(relu6, input_gradients) == [0, 1, -1, 0]
        assert gradient(relu6, guided_gradients) == [0, 1, 0, 0]
    assert gradient(nn.GELU(), guided_gradients) == gradient(nn.GELU(), input_gradients)


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


def test_a_model_without_gradients_says_so() -> None:
    subject = subject_of("transformer")
    cut = Subject(subject.inputs, lambda x: subject.encode(x.detach()), subject.decode)
    for method in gradient_methods():
        with pytest.raises(InputError, match=r"gives no gradients.*occlusion"):
            attribute(cut, targets_of(), method)
    with pytest.raises(InputError, match="reports no attention"):
        attribute(cut, targets_of(), "attention")


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


def test_bad_settings_and_names() -> None:
    subject = subject_of("transformer")
    for settings in (AttributionSettings(steps=0), AttributionSettings(tolerance=0.0)):
        with pytest.raises(InputError, match="at least one step"):
            attribute(subject, targets_of(), settings=settings)
    with pytest.raises(InputError, match="no quadrature rule 'simpson'"):
        attribute(subject, targets_of(), settings=AttributionSettings(rule="simpson"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no attribution method 'magic'"):
        attribute(subject, targets_of(), "magic")
    with pytest.raises(InputError, match=r"no attribution method 'occlusion' here; there are: .*attention$"):
        attribute(subject, targets_of(), "occlusion")
    with pytest.raises(InputError, match="features of 2"):
        from_features(tiny("transformer"), make_features(2))
    words = [WordSpan("a", 0, 1), WordSpan("dog", 1, 2), WordSpan("a", 2, 3)]
    assert find_word(words, "Dog") == 1
    with pytest.raises(InputError, match="stands 2 times"):
        find_word(words, "a")
    with pytest.raises(InputError, match="'cat' is not a word of: a dog a"):
        find_word(words, "cat")


def test_scores_that_jump_somewhere_on_the_path_are_integrated_there() -> None:
    """Two steps, each a thousandth of the path: a rule over the whole cannot see them, panels close in on them."""
    inputs = torch.linspace(0.5, 1.5, 6, dtype=torch.float64).view(3, 2)

    def decode(memory: Tensor, tokens: Tensor) -> TokenLogits:
        way = memory.flatten(1).mean(1)  # alpha, as the inputs have the mean 1
        first, second = torch.tanh((way - 0.31) * 2000), 2 * torch.tanh((way - 0.734) * 3000)
        logits = torch.stack([first, first + second], -1).view(-1, 1, 1, 2).expand(-1, len(tokens), tokens.shape[1], 2)
        return TokenLogits(logits, torch.zeros(len(memory), len(tokens), tokens.shape[1], 3))

    targets = word_targets([0, 1], [WordSpan("this", 0, 1), WordSpan("that", 1, 2)], kind="logit")
    path = PathGradients(Subject(inputs, lambda x: x, decode), targets, torch.zeros_like(inputs), chunk=64)
    found = integrate(path)
    assert found.changes.tolist() == pytest.approx([2.0, 6.0])
    assert float(found.errors.max()) < 0.01
    assert found.steps < 200
    assert torch.allclose(found.attribution, found.changes.view(2, 1, 1) * inputs / inputs.sum(), rtol=0.02)
