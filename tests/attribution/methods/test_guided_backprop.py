"""Guided Backpropagation against a backward pass by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from attribution.small_captioners import subject_of
from captrial.attribution.gradients.path_gradients import input_gradients
from captrial.attribution.methods.guided_backprop import guided_gradients
from captrial.attribution.subject import Subject, Targets, word_targets
from captrial.captioners import ARCHITECTURES
from captrial.captioners.protocols import TokenLogits, WordSpan


@pytest.fixture(params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


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
