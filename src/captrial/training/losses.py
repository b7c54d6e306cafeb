"""The losses: cross-entropy, self-critical, doubly stochastic attention, supervised attention."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from captrial.decoding.protocol import PAD


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean over the words of `targets` (b, n, t) that are not PAD; logits (b, n, t, words).

    With smoothing the target keeps `1 - smoothing` and every other word gets an equal share of the rest; the loss is
    the KL divergence from that distribution, so that a perfect prediction costs 0.
    """
    words = targets != PAD
    logits = at_least_float32(logits[words])
    log_probs = functional.log_softmax(logits, -1)  # (words, vocabulary)
    right = log_probs.gather(-1, targets[words].unsqueeze(-1)).squeeze(-1)
    if smoothing == 0:
        return -right.mean()
    others = logits.shape[-1] - 1
    share = smoothing / others
    crossed = -(1 - smoothing - share) * right - share * log_probs.sum(-1)
    target = torch.tensor([1 - smoothing, share], dtype=logits.dtype, device=logits.device)
    entropy = -(target * target.log() * torch.tensor([1, others], dtype=logits.dtype, device=logits.device)).sum()
    return crossed.mean() - entropy


def at_least_float32(logits: Tensor) -> Tensor:
    """Logits in a precision that log-probabilities can be taken in: at -8 bfloat16 has steps of 1/32."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def self_critical(log_probs: Tensor, tokens: Tensor, advantage: Tensor) -> Tensor:
    """REINFORCE with a baseline (Cornia 2022 Eq. 10): `-(r - b) log p`, the mean over all sampled words, EOS included.

    `log_probs` and `tokens` (b, n, t), `advantage` (b, n) = reward minus baseline.
    """
    words = (tokens != PAD).to(log_probs.dtype)
    return -(log_probs * words * advantage.unsqueeze(-1)).sum() / words.sum()


def baseline(rewards: Tensor, kind: str, greedy: Tensor | None = None) -> Tensor:
    """What each reward (b, n) is compared with: the mean of the n, the mean of the others, or the greedy caption's.

    >>> rewards = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    >>> (rewards - baseline(rewards, "others")).tolist()
    [[-2.6666667461395264, -1.3333332538604736, 0.0, 4.0]]
    """
    n = rewards.shape[1]
    if kind == "mean":
        return rewards.mean(1, keepdim=True).expand_as(rewards)
    if kind == "others":
        return (rewards.sum(1, keepdim=True) - rewards) / (n - 1)
    assert greedy is not None, "the greedy baseline needs the greedy caption's reward"
    return greedy.unsqueeze(1).expand_as(rewards)


def doubly_stochastic(attention: Tensor, targets: Tensor) -> Tensor:
    """Xu et al.: every element should be attended to once, `sum_i (1 - sum_t alpha_ti)^2` of every caption, a word.

    They add it to a caption's sum over its words; ours are means over words, so it is divided by their number, too.
    """
    words = (targets != PAD).unsqueeze(-1).to(attention.dtype)  # (b, n, t, 1)
    return (1 - (attention * words).sum(2)).square().sum() / words.sum()


def supervised_attention(attention: Tensor, target: Tensor, targets: Tensor) -> Tensor:
    """Liu 2017 Eq. 9: `-sum_i beta_i log alpha_i` for words that have a target map, 0 for others; mean over all words.

    `attention` and `target` (b, n, t, k); a word without a target has all zeros there. The mean is over the same words
    of `targets` (b, n, t) as cross-entropy's, so that lambda weighs one sum against the other.
    """
    words = targets != PAD
    losses = -(target * attention.clamp(min=1e-8).log()).sum(-1)
    return (losses * words).sum() / words.sum()
