"""Stages of training: what is optimised, for how long, at which rate. A run is a list of them.

`CrossEntropy` imitates the captions; `SelfCritical` then maximises a reward on captions that the model generates.
Stages of single architectures are in the other modules of this package; `plan` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from captrial.captioners.base import Captioner, TeacherForced, evaluating
from captrial.decoding import BeamSettings, SamplingSettings, beam_search, greedy, sample
from captrial.decoding.constraints import Suppress
from captrial.decoding.protocol import BOS, PAD, StepModel
from captrial.errors import InputError
from captrial.language.vocabulary import UNK
from captrial.training.data import Batch
from captrial.training.losses import (
    at_least_float32,
    baseline,
    cross_entropy,
    doubly_stochastic,
    self_critical,
    supervised_attention,
)
from captrial.training.parallel import WEIGHT
from captrial.training.schedules import Schedule

Logs = dict[str, float]
# The unknown word is in the references, too: it would be rewarded, and no reader wants it.
NEVER_SAMPLED = (PAD, BOS, UNK)
SAMPLING = (Suppress(NEVER_SAMPLED),)
Reward = Callable[[Tensor, Tensor], Tensor]  # tokens (b, n, t), rows (b,) -> rewards (b, n)


class Stage(Protocol):
    """One stage of training."""

    name: str
    epochs: int
    schedule: Schedule
    validates: bool  # whether its captions are worth a validation
    averages: bool  # whether it begins with weights that are worth averaging

    def parameters(self) -> Iterable[nn.Parameter]:
        """What this stage trains."""
        ...

    def loss(self, batch: Batch, epoch: int) -> tuple[Tensor, Logs]:
        """The loss of a batch and what to log beside it."""
        ...


@dataclass
class CrossEntropy:
    """Teacher forcing on the captions (XE), with the attention terms of Xu et al. and of Liu 2017."""

    captioner: Captioner
    epochs: int
    schedule: Schedule
    smoothing: float = 0.1
    scheduled_sampling: float = 0.0  # the share of words read that the model chose itself, at the last epoch
    doubly_stochastic: float = 0.0  # weight of the doubly stochastic term
    attention_weight: float = 0.0  # lambda of Liu 2017 Eq. 9
    attention_targets: Callable[[Batch], Tensor] | None = None  # (b, n, t, k): captrial.training.attention_supervision
    name: str = "xe"
    validates: bool = True
    averages: bool = False

    def parameters(self) -> Iterable[nn.Parameter]:
        """All of the captioner's."""
        return self.captioner.parameters()

    def loss(self, batch: Batch, epoch: int) -> tuple[Tensor, Logs]:
        """Cross-entropy of every stage head, plus the weighted attention terms."""
        memory = self.captioner.encode(batch.features)
        inputs = self._sampled_inputs(batch, memory, epoch)
        stages = self.captioner.teacher_force_stages(inputs, memory)
        loss = torch.stack([cross_entropy(stage.logits, batch.targets, self.smoothing) for stage in stages]).sum()
        logs = {"loss": float(loss.detach()), WEIGHT: float((batch.targets != PAD).sum())}
        attention = stages[-1].attention
        if self.doubly_stochastic:
            loss = loss + self.doubly_stochastic * doubly_stochastic(attention, batch.targets)
        if self.attention_weight and self.attention_targets is not None:
            wanted = self.attention_targets(batch).to(attention.device)
            term = supervised_attention(attention, wanted, batch.targets)
            logs["attention_loss"] = float(term.detach())
            loss = loss + self.attention_weight * term
        return loss, logs

    def _sampled_inputs(self, batch: Batch, memory: object, epoch: int) -> Tensor:
        """Scheduled sampling in two passes: some input words are drawn from the model's own distribution there."""
        share = self.scheduled_sampling * epoch / max(1, self.epochs - 1)
        if share == 0:
            return batch.inputs
        with torch.no_grad():
            logits = self.captioner.teacher_force_stages(batch.inputs, memory)[-1].logits
            probabilities = logits[:, :, :-1].softmax(-1)
            drawn = torch.multinomial(probabilities.flatten(0, 2), 1).view(probabilities.shape[:3])
        own = torch.rand(drawn.shape, device=drawn.device) < share
        later = torch.where(own & (batch.inputs[:, :, 1:] != PAD), drawn, batch.inputs[:, :, 1:])
        return torch.cat([batch.inputs[:, :, :1], later], -1)


@dataclass
class SelfCritical:
    """SCST: captions that the model generates, weighted by how much better than a baseline they are.

    Captions are found with cached decoding and without gradients, then scored again in one teacher-forced pass that has
    them. `samples_by` "beam" takes the beam's hypotheses (Cornia 2022), "sampling" draws from the model: slow to gain
    after label smoothing, which leaves much probability on words that do not fit (docs/training.md).
    """

    captioner: Captioner
    epochs: int
    schedule: Schedule
    reward: Reward
    samples: int = 5
    samples_by: str = "beam"
    baseline: str = "mean"  # (Cornia 2022 Eq. 10), "others" or "greedy"
    max_words: int = 20
    name: str = "scst"
    validates: bool = True
    averages: bool = True

    def __post_init__(self) -> None:
        if self.samples_by not in ("beam", "sampling"):
            raise InputError(f"scst_by {self.samples_by!r}: there are beam and sampling")
        if self.baseline not in ("mean", "others", "greedy"):
            raise InputError(f"baseline {self.baseline!r}: there are mean, others and greedy")
        if self.samples < 2 and self.baseline != "greedy":
            raise InputError("one sample has nothing to be compared with: more scst_samples, or baseline=greedy")

    def parameters(self) -> Iterable[nn.Parameter]:
        """All of the captioner's."""
        return self.captioner.parameters()

    def loss(self, batch: Batch, epoch: int) -> tuple[Tensor, Logs]:
        """REINFORCE on captions of the current model."""
        tokens, advantage, rewards = self.draw(self.captioner, batch)
        with evaluating(self.captioner):  # with dropout it would be another model than the one that was sampled
            forced = self.captioner(batch.features, shifted(tokens))
        logs = {"reward": float(rewards.mean()), WEIGHT: float((tokens != PAD).sum())}
        return self_critical(log_probs_of(forced, tokens), tokens, advantage), logs

    def decoding_options(self) -> dict[str, Any]:
        """Arguments of greedy, beam search and sampling."""
        return {"max_words": self.max_words, "constraints": SAMPLING}

    def draw(self, model: StepModel, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Sampled captions (b, n, t), their advantages and rewards (b, n)."""
        options = self.decoding_options()
        with evaluating(self.captioner), torch.no_grad():
            memory = self.captioner.encode(batch.features)
            if self.samples_by == "beam":
                found = beam_search(model, memory, BeamSettings(beam=self.samples, keep=self.samples, **options))
            else:
                found = sample(model, memory, SamplingSettings(samples=self.samples, **options))
            rewards = self.reward(found.tokens, batch.rows)
            greedy_reward = None
            if self.baseline == "greedy":
                greedy_reward = self.reward(greedy(model, memory, **options).tokens, batch.rows)[:, 0]
        return found.tokens, rewards - baseline(rewards, self.baseline, greedy_reward), rewards


def shifted(tokens: Tensor) -> Tensor:
    """The input that `tokens` (b, n, t) are predicted from: BOS and all but the last."""
    return torch.cat([torch.full_like(tokens[..., :1], BOS), tokens[..., :-1]], -1)


def log_probs_of(forced: TeacherForced, tokens: Tensor) -> Tensor:
    """Log-probabilities (b, n, t) of `tokens` under teacher forcing, among the words that can be sampled.

    Words that are never sampled must not be normalised over: nothing would ever correct them, and they would slowly
    take over the distribution.
    """
    never = torch.zeros(forced.logits.shape[-1], dtype=torch.bool, device=forced.logits.device)
    never[list(NEVER_SAMPLED)] = True
    logits = at_least_float32(forced.logits).masked_fill(never, float("-inf"))
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return (chosen - logits.logsumexp(-1)).masked_fill(tokens == PAD, 0.0)


class HasRewards(Protocol):
    """A reward on token ids, such as `captrial.metrics.ngram.cider_reward.CiderReward`."""

    def rewards(self, sampled: NDArray[np.int64], image_index: NDArray[np.int64]) -> NDArray[np.float64]:
        """(m, t) token ids and (m,) image numbers -> (m,) rewards."""
        ...


def on_tokens(scorer: HasRewards) -> Reward:
    """A scorer on flat numpy arrays as a reward on (b, n, t) tensors."""

    def reward(tokens: Tensor, rows: Tensor) -> Tensor:
        b, n, t = tokens.shape
        numbers = rows.repeat_interleave(n).cpu().numpy()
        scores = scorer.rewards(tokens.reshape(b * n, t).cpu().numpy(), numbers)
        return torch.from_numpy(np.asarray(scores)).to(tokens.device, torch.float32).view(b, n)

    return reward
