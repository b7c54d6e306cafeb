"""Label budget: how many more labels until the ranking is stable, and which images to label next.

The planner estimates whether labelling the rest of D would change the ranking. With n of the N images of D_ij labelled,
log f_ij differs from its final value with variance s_ij^2 (1/n - 1/N). The derivatives of the ranking vector turn this
into variances of the scores; how variances of different pairs add up (they share images and models) is taken from the
bootstrap. The risk of a comparison of two models is the probability that their order will change. The next image is the
one that most reduces the variance of the comparisons with the highest risk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vectors, ratios
from captrial.errors import InputError
from captrial.metrics.significance.bootstrap import exponential_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GOALS = ("winner", "order")  # who is first; the rank of every model
_PRIOR_IMAGES = 5.0  # the pooled variance counts as much as this many images of a pair
_FEWEST = 5  # labels that a direct comparison must have before it can be called settled
_STEP = 1e-4  # in log f, for derivatives


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What is to be settled, and at which risk."""

    goal: str = "winner"  # of GOALS
    target: float = 0.05  # acceptable risk
    most: int | None = None  # images to name; None: all that are needed
    replicates: int = 300
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """The risk as it is now, and what to label next."""

    goal: str  # of GOALS
    risk: float  # probability, bounded from above, that labelling the rest of D changes the goal
    target: float
    labels_needed: int  # predicted number of further images until the risk is at most `target`
    next_images: tuple[str, ...]  # in the order in which they should be labelled
    doubts: tuple[tuple[str, str, float], ...]  # comparisons most at risk: (ahead, behind, probability to change)

    @property
    def stable(self) -> bool:
        """Whether more labels are unlikely to change the goal."""
        return self.labels_needed == 0


def plan_labels(
    pairwise: PairwiseScores, unlabelled: Sequence[Sequence[str]], settings: PlanSettings | None = None
) -> LabelPlan:
    """Plan the labelling: `unlabelled[pair]` are the images of D_ij that have no labels yet."""
    settings = settings or PlanSettings()
    if settings.goal not in GOALS:
        raise InputError(f"no goal {settings.goal!r}; choose from {', '.join(GOALS)}")
    model = _RiskModel.of(pairwise, unlabelled, settings)
    risks = model.risks(model.labelled)
    chosen, needed = _simulate_labelling(model, settings.target, settings.most)
    worst = np.argsort(-risks, kind="stable")[:5]
    names = pairwise.models
    doubts = [(names[model.ahead[at]], names[model.behind[at]], float(risks[at])) for at in worst]
    risk = min(float(risks.sum()), 1.0)
    return LabelPlan(settings.goal, risk, settings.target, needed, tuple(chosen), tuple(doubts))


@dataclass(frozen=True)
class _RiskModel:
    """The risk of each comparison as a function of how many images of each pair are labelled."""

    labelled: Floats  # (pairs,) n
    full: Floats  # (pairs,) N
    ahead: Ints  # (comparisons,) models
    behind: Ints
    lead: Floats  # (comparisons,) difference of log scores
    variance: Floats  # (comparisons, pairs) of the difference for one image of the pair
    direct: NDArray[np.bool_]  # (pairs,) whether the pair is one of the comparisons
    images: tuple[str, ...]  # without labels
    membership: Floats  # (images, pairs)

    @classmethod
    def of(cls, pairwise: PairwiseScores, unlabelled: Sequence[Sequence[str]], settings: PlanSettings) -> _RiskModel:
        labelled = pairwise.labelled.astype(np.float64)
        images = tuple(sorted({image for pair in unlabelled for image in pair}))
        index = {image: row for row, image in enumerate(images)}
        membership = np.zeros((len(images), len(unlabelled)))
        for column, pair in enumerate(unlabelled):
            membership[[index[image] for image in pair], column] = 1.0
        scores = _log_scores(pairwise)
        ahead, behind = _comparisons(scores, settings.goal)
        variance = _variances(pairwise, scores, (ahead, behind), settings)
        full = labelled + membership.sum(axis=0)
        compared = {frozenset(pair) for pair in zip(ahead.tolist(), behind.tolist(), strict=True)}
        direct = np.array([frozenset(pair.models) in compared for pair in pairwise.pairs], np.bool_)
        lead = scores[ahead] - scores[behind]
        return cls(labelled, full, ahead, behind, lead, variance, direct, images, membership)

    def settled(self, labelled: Floats, target: float) -> bool:
        """Whether the risk is acceptable, and no direct comparison rests on fewer than `_FEWEST` images."""
        return not self._too_few(labelled).any() and float(self.risks(labelled).sum()) <= target

    def risks(self, labelled: Floats) -> Floats:
        """(comparisons,) the probability that the final order is the other one."""
        spread = np.sqrt(self.variance @ self._open(labelled))
        certain = spread == 0
        return np.where(certain, 0.0, ndtr(-self.lead / np.where(certain, 1.0, spread)))

    def gains(self, labelled: Floats) -> Floats:
        """(images,) how much a label would reduce the variances, comparisons weighted by their risk."""
        spread = self.variance @ self._open(labelled)
        weights = self.risks(labelled) / np.where(spread > 0, spread, 1.0)
        saved = self._open(labelled) - self._open(np.minimum(labelled + 1, self.full))
        useful = self.membership @ ((weights @ self.variance) * saved)
        underlabelled = self.membership @ self._too_few(labelled)  # images of such pairs come first
        return np.asarray(useful + underlabelled * (1 + float(useful.max(initial=0.0))))

    def _too_few(self, labelled: Floats) -> NDArray[np.bool_]:
        return self.direct & (labelled < np.minimum(self.full, _FEWEST))

    def _open(self, labelled: Floats) -> Floats:
        """1/n - 1/N; a pair without any label counts as if it had half an image."""
        return np.where(self.full > labelled, 1 / np.maximum(labelled, 0.5) - 1 / np.maximum(self.full, 1.0), 0.0)


def _simulate_labelling(model: _RiskModel, target: float, most: int | None) -> tuple[list[str], int]:
    """Label the most useful image first; return the images, and how many are needed until the risk is acceptable."""
    labelled = model.labelled.copy()
    left = np.ones(len(model.images), np.bool_)
    chosen: list[str] = []
    needed = 0 if model.settled(labelled, target) else None
    while left.any() and (needed is None or len(chosen) < (len(left) if most is None else most)):
        at = int(np.argmax(np.where(left, model.gains(labelled), -1.0)))
        left[at] = False
        labelled = labelled + model.membership[at]
        chosen.append(model.images[at])
        if needed is None and model.settled(labelled, target):
            needed = len(chosen)
    return chosen[: len(chosen) if most is None else most], len(chosen) if needed is None else needed


def _log_scores(pairwise: PairwiseScores) -> Floats:
    return np.asarray(np.log(ranking_vectors(ratios(pairwise.matrix())[None])[0]))


def _comparisons(scores: Floats, goal: str) -> tuple[Ints, Ints]:
    order = np.argsort(-scores, kind="stable")
    return (np.repeat(order[:1], len(order) - 1), order[1:]) if goal == "winner" else (order[:-1], order[1:])


def _variances(
    pairwise: PairwiseScores, scores: Floats, comparisons: tuple[Ints, Ints], settings: PlanSettings
) -> Floats:
    """(comparisons, pairs): what one image of a pair adds to the variance of a difference of log scores."""
    ahead, behind = comparisons
    if not len(pairwise.images):
        return np.ones((len(ahead), len(pairwise.pairs)))
    weights = exponential_weights(settings.replicates, len(pairwise.images), settings.seed)
    f = ratios(pairwise.matrix(weights))  # (replicates, m, m)
    first = np.array([pair.models[0] for pair in pairwise.pairs])
    second = np.array([pair.models[1] for pair in pairwise.pairs])
    own = np.nan_to_num(np.log(f[:, first, second]).var(axis=0))  # (pairs,) of log f_ij
    labelled = pairwise.labelled
    freedom = np.maximum(labelled - 1.0, 0.0)
    unbiased = own * (labelled + 1) * labelled / np.maximum(freedom, 1.0)  # variance that one image has
    pooled = float(np.average(unbiased, weights=freedom)) if freedom.any() else 1.0
    single = (freedom * unbiased + _PRIOR_IMAGES * pooled) / (freedom + _PRIOR_IMAGES)
    slopes = _slopes(scores, pairwise, first, second)
    share = (slopes[ahead] - slopes[behind]) ** 2 * single  # (comparisons, pairs)
    logs = np.log(ranking_vectors(f))
    seen = (logs[:, ahead] - logs[:, behind]).var(axis=0)
    expected = (share / np.maximum(labelled, 0.5)).sum(axis=1)
    together = np.clip(seen / np.where(expected > 0, expected, 1.0), 0.5, float(len(scores)))
    return np.asarray(share * together[:, None])


def _slopes(scores: Floats, pairwise: PairwiseScores, first: Ints, second: Ints) -> Floats:
    """(m, pairs): derivatives of the log scores by log f_ij, at the present F with unknown ratios filled in."""
    f = ratios(pairwise.matrix())
    f = np.where(np.isnan(f), np.exp(scores[:, None] - scores[None, :]), f)
    moved = np.tile(f, (len(first), 1, 1))
    rows = np.arange(len(first))
    moved[rows, first, second] *= np.exp(_STEP)
    moved[rows, second, first] *= np.exp(-_STEP)
    return np.asarray((np.log(ranking_vectors(moved)) - np.log(ranking_vectors(f[None]))).T / _STEP)
