"""The budget: how many more labels until the ranking stands, and which images to label next.

The question is whether labelling the rest of D would change the ranking. With n of the N images of D_ij labelled,
log f_ij is off its final value with variance s_ij^2 (1/n - 1/N). How log f_ij moves the scores follows from the ranking
vector's derivatives; how much variances of different pairs add up (they share images and models) is taken from the
bootstrap. A comparison of two models is at risk by the probability that their order will turn. The next image is the
one that takes most variance away from the comparisons that are most at risk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from captrial.compete.ranking.bootstrap import exponential_weights
from captrial.compete.ranking.dominance import ratios
from captrial.compete.ranking.evidence import Evidence
from captrial.compete.ranking.perron import ranking_vectors
from captrial.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GOALS = ("winner", "order")  # who is first; every model's place
_PRIOR_IMAGES = 5.0  # the pooled variance counts as much as this many images of a pair
_FEWEST = 5  # labels that a direct comparison must have before it can be called settled
_STEP = 1e-4  # in log f, for derivatives


@dataclass(frozen=True, slots=True)
class Plan:
    """What is still open, and what to label next."""

    goal: str  # of GOALS
    risk: float  # probability, bounded from above, that labelling the rest of D changes the goal
    target: float
    labels_needed: int  # predicted number of further images until the risk is at most `target`
    next_images: tuple[str, ...]  # in the order in which they should be labelled
    doubts: tuple[tuple[str, str, float], ...]  # comparisons most at risk: (ahead, behind, probability to turn)

    @property
    def stable(self) -> bool:
        """Whether more labels are unlikely to change the goal."""
        return self.labels_needed == 0


def plan(
    evidence: Evidence,
    waiting: Sequence[Sequence[str]],
    goal: str = "winner",
    target: float = 0.05,
    most: int | None = None,
    replicates: int = 300,
    seed: int = 0,
) -> Plan:
    """Plan the labelling: `waiting[pair]` are the images of D_ij that have no labels yet."""
    if goal not in GOALS:
        raise InputError(f"no goal {goal!r}; choose from {', '.join(GOALS)}")
    outlook = _Outlook.of(evidence, waiting, goal, replicates, seed)
    risks = outlook.risks(outlook.labelled)
    chosen, needed = _walk(outlook, target, most)
    worst = np.argsort(-risks, kind="stable")[:5]
    names = evidence.models
    doubts = [(names[outlook.ahead[at]], names[outlook.behind[at]], float(risks[at])) for at in worst]
    return Plan(goal, min(float(risks.sum()), 1.0), target, needed, tuple(chosen), tuple(doubts))


@dataclass(frozen=True)
class _Outlook:
    """How the risk of each comparison depends on how many images of each pair are labelled."""

    labelled: Floats  # (pairs,) n
    full: Floats  # (pairs,) N
    ahead: Ints  # (comparisons,) models
    behind: Ints
    lead: Floats  # (comparisons,) difference of log scores
    variance: Floats  # (comparisons, pairs) of the difference for one image of the pair
    direct: NDArray[np.bool_]  # (pairs,) whether the pair is one of the comparisons
    images: tuple[str, ...]  # that wait for labels
    membership: Floats  # (images, pairs)

    @classmethod
    def of(
        cls, evidence: Evidence, waiting: Sequence[Sequence[str]], goal: str, replicates: int, seed: int
    ) -> _Outlook:
        labelled = evidence.labelled.astype(np.float64)
        images = tuple(sorted({image for pair in waiting for image in pair}))
        index = {image: row for row, image in enumerate(images)}
        membership = np.zeros((len(images), len(waiting)))
        for column, pair in enumerate(waiting):
            membership[[index[image] for image in pair], column] = 1.0
        scores = _log_scores(evidence)
        ahead, behind = _comparisons(scores, goal)
        variance = _variances(evidence, scores, ahead, behind, replicates, seed)
        full = labelled + membership.sum(axis=0)
        compared = {frozenset(pair) for pair in zip(ahead.tolist(), behind.tolist(), strict=True)}
        direct = np.array([frozenset(pair.models) in compared for pair in evidence.pairs], np.bool_)
        lead = scores[ahead] - scores[behind]
        return cls(labelled, full, ahead, behind, lead, variance, direct, images, membership)

    def settled(self, labelled: Floats, target: float) -> bool:
        """Whether the risk is acceptable, and no direct comparison rests on a handful of images."""
        return not self._starving(labelled).any() and float(self.risks(labelled).sum()) <= target

    def risks(self, labelled: Floats) -> Floats:
        """(comparisons,) the probability that the final order is the other one."""
        spread = np.sqrt(self.variance @ self._open(labelled))
        certain = spread == 0
        return np.where(certain, 0.0, stats.norm.cdf(-self.lead / np.where(certain, 1.0, spread)))

    def gains(self, labelled: Floats) -> Floats:
        """(images,) how much a label would take from the variances, comparisons weighed by their risk."""
        spread = self.variance @ self._open(labelled)
        weights = self.risks(labelled) / np.where(spread > 0, spread, 1.0)
        saved = self._open(labelled) - self._open(np.minimum(labelled + 1, self.full))
        useful = self.membership @ ((weights @ self.variance) * saved)
        starving = self.membership @ self._starving(labelled)  # these come first
        return np.asarray(useful + starving * (1 + float(useful.max(initial=0.0))))

    def _starving(self, labelled: Floats) -> NDArray[np.bool_]:
        return self.direct & (labelled < np.minimum(self.full, _FEWEST))

    def _open(self, labelled: Floats) -> Floats:
        """1/n - 1/N; a pair without any label counts as if it had half an image."""
        return np.where(self.full > labelled, 1 / np.maximum(labelled, 0.5) - 1 / np.maximum(self.full, 1.0), 0.0)


def _walk(outlook: _Outlook, target: float, most: int | None) -> tuple[list[str], int]:
    """Label on paper, the most useful image first; when does the risk fall below the target?"""
    labelled = outlook.labelled.copy()
    left = np.ones(len(outlook.images), np.bool_)
    chosen: list[str] = []
    needed = 0 if outlook.settled(labelled, target) else None
    while left.any() and (needed is None or len(chosen) < (len(left) if most is None else most)):
        at = int(np.argmax(np.where(left, outlook.gains(labelled), -1.0)))
        left[at] = False
        labelled = labelled + outlook.membership[at]
        chosen.append(outlook.images[at])
        if needed is None and outlook.settled(labelled, target):
            needed = len(chosen)
    return chosen[: len(chosen) if most is None else most], len(chosen) if needed is None else needed


def _log_scores(evidence: Evidence) -> Floats:
    return np.asarray(np.log(ranking_vectors(ratios(evidence.scores())[None])[0]))


def _comparisons(scores: Floats, goal: str) -> tuple[Ints, Ints]:
    order = np.argsort(-scores, kind="stable")
    return (np.repeat(order[:1], len(order) - 1), order[1:]) if goal == "winner" else (order[:-1], order[1:])


def _variances(evidence: Evidence, scores: Floats, ahead: Ints, behind: Ints, replicates: int, seed: int) -> Floats:
    """(comparisons, pairs): what one image of a pair adds to the variance of a difference of log scores."""
    if not len(evidence.images):
        return np.ones((len(ahead), len(evidence.pairs)))
    weights = exponential_weights(replicates, len(evidence.images), seed)
    f = ratios(evidence.scores(weights))  # (replicates, m, m)
    first = np.array([pair.models[0] for pair in evidence.pairs])
    second = np.array([pair.models[1] for pair in evidence.pairs])
    own = np.nan_to_num(np.log(f[:, first, second]).var(axis=0))  # (pairs,) of log f_ij
    labelled = evidence.labelled
    freedom = np.maximum(labelled - 1.0, 0.0)
    unbiased = own * (labelled + 1) * labelled / np.maximum(freedom, 1.0)  # variance that one image has
    pooled = float(np.average(unbiased, weights=freedom)) if freedom.any() else 1.0
    single = (freedom * unbiased + _PRIOR_IMAGES * pooled) / (freedom + _PRIOR_IMAGES)
    slopes = _slopes(scores, evidence, first, second)
    share = (slopes[ahead] - slopes[behind]) ** 2 * single  # (comparisons, pairs)
    logs = np.log(ranking_vectors(f))
    seen = (logs[:, ahead] - logs[:, behind]).var(axis=0)
    expected = (share / np.maximum(labelled, 0.5)).sum(axis=1)
    together = np.clip(seen / np.where(expected > 0, expected, 1.0), 0.5, float(len(scores)))
    return np.asarray(share * together[:, None])


def _slopes(scores: Floats, evidence: Evidence, first: Ints, second: Ints) -> Floats:
    """(m, pairs): derivatives of the log scores by log f_ij, at the present F with unknown ratios filled in."""
    f = ratios(evidence.scores())
    f = np.where(np.isnan(f), np.exp(scores[:, None] - scores[None, :]), f)
    moved = np.tile(f, (len(first), 1, 1))
    rows = np.arange(len(first))
    moved[rows, first, second] *= np.exp(_STEP)
    moved[rows, second, first] *= np.exp(-_STEP)
    return np.asarray((np.log(ranking_vectors(moved)) - np.log(ranking_vectors(f[None]))).T / _STEP)
