"""What single stages of training do with their options."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from captrial.captioners import Captioner, create
from captrial.captioners.architectures.disc import Disc, RetrievalCritic
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.decoding import greedy
from captrial.decoding.protocol import BOS, PAD
from captrial.training.data import Batch, CaptionData
from captrial.training.losses import self_critical
from captrial.training.recipe import Recipe
from captrial.training.schedules import Schedule
from captrial.training.stages.base import CrossEntropy, SelfCritical
from captrial.training.stages.disc_stages import Discriminate, TrainCritic
from captrial.training.stages.plan import make_stages
from captrial.training.stages.stack_cap_stages import StageWiseSelfCritical
from training.twenty_images import SIZE, RandomFeatures, samples, vocabulary


def small_world(preset: str, captions: int = 1, **sizes: int) -> tuple[Captioner, CaptionData, Batch]:
    """An untrained captioner, twenty images, and all of them as one batch."""
    images = samples(captions=captions)
    words = vocabulary(images)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=captions)
    torch.manual_seed(0)
    captioner = create(preset, words=len(words), features=SIZE, **sizes)
    return captioner, data, data.batch(np.arange(len(data)), np.random.default_rng(0))


def test_scheduled_sampling_lets_the_model_read_its_sampled_inputs_more_and_more() -> None:
    captioner, _, batch = small_world("att2in-small")
    favourite = 7
    with torch.no_grad():
        captioner.head.bias[favourite] = 1e4  # type: ignore[union-attr, operator]
    stage = CrossEntropy(captioner, 5, Schedule(), scheduled_sampling=1.0)
    memory = captioner.encode(batch.features)
    torch.manual_seed(0)
    shares = []
    for epoch in (0, 2, 4):
        read = stage._sampled_inputs(batch, memory, epoch)
        assert (read[..., 0] == BOS).all()
        later, words = read[..., 1:], batch.inputs[..., 1:]
        assert ((later == PAD) == (words == PAD)).all()
        assert ((later == words) | (later == favourite)).all()
        shares.append(float((later[words != PAD] == favourite).float().mean()))
    assert shares[0] < 0.2
    assert shares[1] == pytest.approx(0.5, abs=0.15)
    assert shares[2] == 1.0


def test_a_caption_is_compared_with_the_greedy_one() -> None:
    captioner, _, batch = small_world("transformer-small")

    def count_words(tokens: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return (tokens != PAD).sum(-1).float()

    stage = SelfCritical(captioner, 1, Schedule(), count_words, samples_by="sampling", baseline="greedy")
    torch.manual_seed(0)
    tokens, advantage, rewards = stage.draw(captioner, batch)
    captioner.eval()
    said = greedy(captioner, captioner.encode(batch.features), **stage.decoding_options()).tokens
    torch.testing.assert_close(rewards, count_words(tokens, batch.rows))
    torch.testing.assert_close(advantage, rewards - count_words(said, batch.rows))


def test_the_end_of_a_caption_counts_unless_switched_off() -> None:
    captioner, data, batch = small_world("transformer-small", captions=3)
    ended = torch.tensor(data.token_ids[0][0][1:]).view(1, 1, -1)  # words and EOS
    for count_end in (True, False):
        (stage,) = make_stages(captioner, data, Recipe(epochs=0, scst_epochs=1, count_end=count_end))
        assert isinstance(stage, SelfCritical)
        rewards = [stage.reward(tokens, batch.rows[:1]) for tokens in (ended, ended[..., :-1])]
        assert torch.equal(rewards[0], rewards[1]) != count_end


def test_a_stage_is_rewarded_for_its_gain_over_the_stage_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advantages over the baseline are 0 here: what remains is eta (r(s_i) - r_{i-1}), none for the first stage."""
    captioner, data, batch = small_world("stack_cap-small")
    drawn = iter([torch.zeros(20, 1), torch.full((20, 1), 3.0)] * 3)

    def draw(self: SelfCritical, *_: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return batch.tokens[:, :, 1:], torch.zeros(20, 1), next(drawn)

    monkeypatch.setattr(SelfCritical, "draw", draw)
    losses = []
    for eta in (0.0, 1.0, 2.0):
        (stage,) = make_stages(captioner, data, Recipe(epochs=0, scst_epochs=1, eta=eta))
        assert isinstance(stage, StageWiseSelfCritical)
        losses.append(stage.loss(batch, 0)[0].item())
    assert losses[0] == 0
    assert losses[1] > 0
    assert losses[2] == pytest.approx(2 * losses[1])


def test_a_stage_is_compared_with_its_own_greedy_caption_and_that_of_the_stage_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A_i = (r(s_i) - r(g_i)) + eta (r(s_i) - r(g_{i-1})), without the second term for the first stage."""
    captioner, _, batch = small_world("stack_cap-small", stages=3, width=32)
    assert isinstance(captioner, StackCap)
    eta = 0.5

    def pay(tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Whole numbers, so that nothing is rounded; other ones for other captions, and for other images."""
        return (tokens * torch.arange(1, tokens.shape[-1] + 1)).sum(-1).float() + 1000 * rows[:, None]

    sampled: list[tuple[torch.Tensor, torch.Tensor]] = []

    def take(log_probs: torch.Tensor, tokens: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
        sampled.append((tokens, advantage))
        return self_critical(log_probs, tokens, advantage)

    monkeypatch.setattr("captrial.training.stages.stack_cap_stages.self_critical", take)
    stage = StageWiseSelfCritical(
        captioner, 1, Schedule(), pay, samples_by="sampling", baseline="greedy", max_words=8, eta=eta
    )
    stage.loss(batch, 0)
    captioner.eval()
    memory = captioner.encode(batch.features)
    before = None
    for number, (tokens, advantage) in enumerate(sampled):
        said = greedy(captioner.at_stage(number), memory, **stage.decoding_options()).tokens
        reward, own = pay(tokens, batch.rows), pay(said, batch.rows)
        expected = reward - own if before is None else (reward - own) + eta * (reward - before)
        assert torch.equal(advantage, expected)
        assert before is None or not torch.equal(own, before)  # or it could not be told which one was meant
        before = own
    assert len(sampled) == 3


def test_a_critic_meets_all_negatives_before_the_hardest() -> None:
    captioner, _, batch = small_world("disc-small")
    assert isinstance(captioner, Disc)
    critic = RetrievalCritic(captioner.config)
    stage = TrainCritic(critic, 4, Schedule())
    images, captions = critic.embed_images(batch.features), critic.embed_captions(batch.tokens[:, 0, 1:])
    similarity = (images @ captions.T).detach()
    costs = [  # by the definition, pair by pair
        [max(0.0, 0.2 + float(row[j] - row[i])) + max(0.0, 0.2 + float(similarity[j, i] - row[i])) for j in range(20)]
        for i, row in enumerate(similarity)
    ]
    all_negatives = np.mean([sum(row) - row[i] for i, row in enumerate(costs)])
    early, late = (stage.loss(batch, epoch)[0].item() for epoch in (1, 2))
    assert early == pytest.approx(all_negatives, rel=1e-4)
    assert late == pytest.approx(critic.loss(images, captions).mean().item())
    assert late < early


@pytest.mark.slow
def test_disc_learns_to_please_its_critic() -> None:
    """With the critic's word alone as reward, captions come to fit their own images better than others."""
    captioner, _, batch = small_world("disc-small")
    assert isinstance(captioner, Disc)
    critic = RetrievalCritic(captioner.config)
    nothing = Discriminate(captioner, 1, Schedule(), lambda tokens, _: torch.zeros(tokens.shape[:2]), critic=critic)
    nothing.samples_by, nothing.baseline = "sampling", "others"

    def optimise(stage: TrainCritic | CrossEntropy | Discriminate, steps: int, rate: float) -> float:
        optimizer = torch.optim.Adam(list(stage.parameters()), rate)
        for _ in range(steps):
            loss, logs = stage.loss(batch, 0)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return logs.get("reward", 0.0)

    optimise(TrainCritic(critic, 1, Schedule()), 80, 5e-3)
    optimise(CrossEntropy(captioner, 1, Schedule(), smoothing=0.0), 60, 3e-3)
    before = optimise(nothing, 1, 0.0)
    after = optimise(nothing, 60, 5e-4)
    assert after > before + 0.05
