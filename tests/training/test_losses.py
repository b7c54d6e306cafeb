"""Losses, baselines and schedules against values worked out by hand."""

from __future__ import annotations

import pytest
import torch

from captrial.captioners.base import TeacherForced
from captrial.decoding.protocol import PAD
from captrial.errors import InputError
from captrial.training.losses import baseline, cross_entropy, doubly_stochastic, self_critical, supervised_attention
from captrial.training.schedules import Schedule
from captrial.training.stages.base import log_probs_of


def test_label_smoothing_is_a_divergence() -> None:
    logits, targets = torch.zeros(1, 1, 1, 5, dtype=torch.float64), torch.tensor([[[3]]])
    assert float(cross_entropy(logits, targets, 0.2)) == pytest.approx(0.831777, abs=1e-6)
    perfect = torch.full((5,), 0.05, dtype=torch.float64)
    perfect[3] = 0.8
    assert float(cross_entropy(perfect.log().view(1, 1, 1, 5), targets, 0.2)) == pytest.approx(0, abs=1e-9)


def test_padding_costs_nothing() -> None:
    logits = torch.randn(1, 2, 3, 7)
    targets = torch.tensor([[[4, 5, PAD], [6, PAD, PAD]]])
    alone = cross_entropy(logits[:, :, :2], targets[:, :, :2])
    assert float(cross_entropy(logits, targets)) == pytest.approx(float(alone))


def test_baselines() -> None:
    rewards = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    assert baseline(rewards, "others")[0].tolist() == pytest.approx([11 / 3, 10 / 3, 3, 2])
    assert (rewards - baseline(rewards, "others"))[0].tolist() == pytest.approx([-8 / 3, -4 / 3, 0, 4])
    assert baseline(rewards, "mean")[0].tolist() == [3, 3, 3, 3]
    assert baseline(rewards, "greedy", torch.tensor([2.5]))[0].tolist() == [2.5] * 4


def test_self_critical_gradient_has_the_right_sign() -> None:
    """A caption better than its baseline becomes more probable, a worse one less."""
    log_probs = torch.zeros(1, 2, 2, requires_grad=True)
    tokens = torch.tensor([[[5, 2], [6, PAD]]])
    self_critical(log_probs, tokens, torch.tensor([[1.0, -1.0]])).backward()
    assert log_probs.grad is not None
    assert (log_probs.grad[0, 0] < 0).all()
    assert log_probs.grad[0, 1, 0] > 0
    assert log_probs.grad[0, 1, 1] == 0  # PAD


def test_attention_terms() -> None:
    attention = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    targets = torch.tensor([[[7, PAD]]])
    assert float(doubly_stochastic(attention, targets)) == pytest.approx(0.75**2 + 0.25**2)
    both = 0.25**2 + 0.25**2  # looked at 0.75 and 1.25 times
    assert float(doubly_stochastic(attention, torch.tensor([[[7, 8]]]))) == pytest.approx(both / 2)  # a word
    wanted = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    alone = -torch.log(torch.tensor(0.25)).item()
    assert float(supervised_attention(attention, wanted, targets)) == pytest.approx(alone)
    among_two = torch.tensor([[[7, 8]]])  # words without a map count: the mean is that of cross-entropy
    assert float(supervised_attention(attention, wanted, among_two)) == pytest.approx(alone / 2)
    assert float(supervised_attention(attention, torch.zeros_like(wanted), targets)) == 0
    assert float(supervised_attention(attention, wanted.flip(2), targets)) == 0  # a map where nothing is said


@pytest.mark.parametrize(
    ("width", "warmup", "rates"),
    [
        (512, 10_000, (4.4194e-8, 4.4194e-5, 4.4194e-4, 1.3975e-4)),
        (512, 20_000, (1.5625e-8, 1.5625e-5, 3.1250e-4, 1.3975e-4)),
        (1024, 10_000, (3.1250e-8, 3.1250e-5, 3.1250e-4, 9.8821e-5)),
    ],
)
def test_noam(width: int, warmup: int, rates: tuple[float, ...]) -> None:
    schedule = Schedule("noam", 1.0, warmup=warmup, width=width)
    assert [schedule.at(step) for step in (1, 1000, warmup, 100_000)] == pytest.approx(rates, rel=1e-4)


def test_schedules_without_a_rise_and_without_a_name() -> None:
    assert Schedule("noam", 1.0, warmup=0, width=512).at(1) == pytest.approx(512**-0.5)
    with pytest.raises(InputError, match="no schedule 'linear'; there are: constant, noam"):
        Schedule("linear")  # type: ignore[arg-type]


def test_other_schedules() -> None:
    cosine = Schedule("cosine", 1.0, warmup=10, total=110)
    assert cosine.at(5) == pytest.approx(0.5)
    assert cosine.at(60) == pytest.approx(0.5)
    assert cosine.at(110) == pytest.approx(0)
    step = Schedule("step", 1.0, warmup=0, every=10, decay=0.8)
    assert [step.at(1), step.at(10), step.at(11), step.at(21)] == pytest.approx([1, 1, 0.8, 0.64])
    plateau = Schedule("plateau", 1.0, warmup=0, decay=0.5, patience=2)
    assert plateau.at(1, [1.0, 0.9, 0.8]) == 0.5
    assert plateau.at(1, [1.0, 0.9, 1.1]) == 1.0


def test_log_probabilities_of_bfloat16_logits_are_taken_in_float32() -> None:
    """Autocast gives logits in bfloat16; in that precision a loss of 8 would be off by up to 1/64."""
    torch.manual_seed(0)
    logits = (3 * torch.randn(2, 1, 5, 2000)).bfloat16()
    targets = torch.randint(4, 2000, (2, 1, 5))
    for smoothing in (0.0, 0.1):
        exact = cross_entropy(logits.double(), targets, smoothing)
        assert float(cross_entropy(logits, targets, smoothing)) == pytest.approx(float(exact), rel=1e-5)
    forced = [TeacherForced(each, torch.zeros(2, 1, 5, 1)) for each in (logits, logits.double())]
    found, exact = (log_probs_of(each, targets) for each in forced)
    assert torch.allclose(found.double(), exact, atol=1e-4)
