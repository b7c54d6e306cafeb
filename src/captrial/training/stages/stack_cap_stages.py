"""Stack-Cap's self-critical training: a reward for every stage of the captioner."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from captrial.captioners.architectures.stack_cap import StackCap
from captrial.captioners.base import evaluating
from captrial.decoding.protocol import PAD, StepModel
from captrial.decoding.sampling import greedy
from captrial.training.data import Batch
from captrial.training.losses import self_critical
from captrial.training.parallel import WEIGHT
from captrial.training.stages.base import Logs, SelfCritical, log_probs_of, shifted


@dataclass
class StageWiseSelfCritical(SelfCritical):
    """Stack-Cap's SCST: every stage is sampled and also compared with the stage before it.

    `A_i = (r(s_i) - b_i) + eta (r(s_i) - r_{i-1})`, no second term for the first stage. With the baseline "greedy" b_i
    and r_{i-1} are rewards of greedy captions, as we understand the paper; since those are far above most samples,
    nearly every advantage is negative and training may not gain at all. Otherwise b_i is as for other captioners and
    r_{i-1} the mean reward of the stage before: with sampling the same gradient on average, with less noise.
    """

    eta: float = 1.0

    def loss(self, batch: Batch, epoch: int) -> tuple[Tensor, Logs]:
        """The sum of the stages' losses; the reward is that of the last."""
        captioner = self.captioner
        assert isinstance(captioner, StackCap)
        losses, before = [], None
        for stage in range(captioner.config.stages):
            tokens, advantage, rewards = self.draw(captioner.at_stage(stage), batch)
            if before is not None:
                advantage = advantage + self.eta * (rewards - before)
            before = self._stage_reward(captioner.at_stage(stage), batch, rewards)
            with evaluating(captioner):
                forced = captioner.teacher_force_stages(shifted(tokens), captioner.encode(batch.features))[stage]
            losses.append(self_critical(log_probs_of(forced, tokens), tokens, advantage))
        logs = {"reward": float(rewards.mean()), WEIGHT: float((tokens != PAD).sum())}
        return torch.stack(losses).sum(), logs

    @torch.no_grad()
    def _stage_reward(self, model: StepModel, batch: Batch, rewards: Tensor) -> Tensor:
        """The reward of a stage for each image, (b, 1), which the next stage is compared with."""
        if self.baseline != "greedy":
            return rewards.mean(1, keepdim=True)
        with evaluating(self.captioner):
            memory = self.captioner.encode(batch.features)
            return self.reward(greedy(model, memory, **self.decoding_options()).tokens, batch.rows)
