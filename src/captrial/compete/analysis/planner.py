"""A stop that can be trusted at any time: is the winner on the whole pool settled, and if not, what to label next?

Labels of the pool's sample are added one by one, and one may look after each. Let image x_t be drawn as number t with
rate r_t, R_t being the sum of the rates of all images left, x_t among them (`SampleOrder.draws`). Then

    Y_t = sum of (d(x_s) - f(x_s)) over the images s < t / R_t + (d(x_t) - f(x_t)) / r_t

has the expectation N D / R_t whatever was drawn before, where D is the mean over the pool of the differences d between
two models, and f is any guess of d that sums to 0 over the pool and rests on earlier labels alone. This is the
estimator of Des Raj (1956) on a scale on which all Y_t have the same spread if r is proportional to the spread of
d - f; R_t shrinks as the pool is used up, and with it what is uncertain. f is a slope times the agreement of a caption
with the other models' captions, relative to the image's mean; it is fitted again with every third more labels.

The sign of D is that of every expectation, so the Y_t carry anytime-valid evidence about it: the t-test of
`confidence_sequence`, exact for normal numbers; `studies/competition_stop.py` replays real captioners. The winner is
settled when all other models are out by the evidence that they are not the best (`exclusion`), which must reach
1 / risk; the order, when each of its m - 1 comparisons has reached m (m - 1) / 2 / risk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from captrial.compete.analysis.confidence_sequence import exclusion, exclusion_share, running_log_t, t_labels_needed
from captrial.errors import InputError

Floats = NDArray[np.float64]

GOALS = ("winner", "order")  # who is first; the rank of every model
FIRST_FIT, REFIT = 20, 4 / 3  # labels from which on slopes are fitted, and how many times as many until the next fit
_PRIOR_LABELS = 10.0  # a slope of 0 counts as much as this many labels of the model
_MOST_EVIDENCE = 700.0  # log; beyond, exp overflows


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What is to be settled, and at which risk."""

    goal: str = "winner"  # of GOALS
    risk: float = 0.05  # that what is called settled is wrong, however often one looks

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise InputError(f"no goal {self.goal!r}; choose from {', '.join(GOALS)}")
        if not 0 < self.risk < 1:
            raise InputError(f"the risk is a probability between 0 and 1, not {self.risk}")


@dataclass(frozen=True)
class DrawnLabels:
    """Labelled images of a sample in the order in which they were drawn."""

    scores: Floats  # (n, m)
    rate: Floats  # (n,) and
    left: Floats  # (n,): see `SampleOrder.draws`
    images: int  # in the pool
    agreement: Floats | None = None  # (n, m) of each caption with the other models', minus the pool's mean

    @property
    def complete(self) -> bool:
        """Whether the whole pool is labelled."""
        return len(self.scores) >= self.images


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """One comparison that the goal needs."""

    ahead: str
    behind: str
    difference: float  # of the mean scores over the pool, as estimated by the labels so far
    evidence: float  # that the second is not the best, or (order) worse than the first; see `LabelPlan.threshold`
    settled: bool
    labels_needed: int | None  # further labels, about; 0 once settled, None if no end is in sight (a tie)


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """What is settled about the pool, what is open, and how many labels it will probably take."""

    goal: str
    risk: float
    threshold: float  # evidence that a comparison must reach
    labels: int  # of the sample, used
    images: int  # in the pool
    winner: str  # the model that is ahead
    settled: bool
    labels_needed: int | None  # further labels, about; None where a tie is in the way
    comparisons: tuple[ModelComparison, ...]  # open ones first
    contenders: tuple[str, ...]  # models that may still be first

    @property
    def open(self) -> list[ModelComparison]:
        """Comparisons that are not settled."""
        return [comparison for comparison in self.comparisons if not comparison.settled]


def plan_labels(models: Sequence[str], drawn: DrawnLabels, settings: PlanSettings | None = None) -> LabelPlan:
    """Judge the labels of a sample."""
    settings = settings or PlanSettings()
    m, n = len(models), len(drawn.scores)
    terms = unbiased_terms(drawn)  # (n, m)
    means = drawn.scores.mean(axis=0) if drawn.complete else pool_means(terms, drawn)
    order = [int(model) for model in np.argsort(-means, kind="stable")]
    winner = settings.goal == "winner"
    pairs = [(order[0], other) for other in order[1:]] if winner else list(pairwise(order))
    threshold = 1 / settings.risk if winner else m * (m - 1) / 2 / settings.risk
    comparisons = []
    for first, second in pairs:
        reached = _exclusion(terms, second) if winner else running_log_t(terms[:, first] - terms[:, second])
        evidence = math.exp(min(float(reached.max(initial=-np.inf)), _MOST_EVIDENCE))
        lead = float(means[first] - means[second])
        settled = evidence >= threshold or (drawn.complete and lead > 0)
        alone = threshold * exclusion_share(m) if winner else threshold  # what the leader's evidence must reach
        needed = 0 if settled else _labels_needed(terms[:, first] - terms[:, second], alone, drawn.images)
        comparisons.append(ModelComparison(models[first], models[second], lead, evidence, settled, needed))
    more = [comparison.labels_needed for comparison in comparisons]
    return LabelPlan(
        goal=settings.goal,
        risk=settings.risk,
        threshold=threshold,
        labels=n,
        images=drawn.images,
        winner=models[order[0]],
        settled=all(comparison.settled for comparison in comparisons),
        labels_needed=None if None in more else max((count for count in more if count is not None), default=0),
        comparisons=tuple(sorted(comparisons, key=lambda found: (found.settled, found.evidence))),
        contenders=tuple(
            dict.fromkeys(name for found in comparisons if not found.settled for name in (found.ahead, found.behind))
        ),
    )


def unbiased_terms(drawn: DrawnLabels) -> Floats:
    """Y_t (n, m) of every model; the differences of two columns are those of the text above."""
    scores, left = drawn.scores, drawn.left[:, None]
    before = np.cumsum(scores, axis=0) - scores
    if drawn.agreement is None or scores.shape[1] < 3:  # two models agree with each other alike
        return np.asarray(before / left + scores / drawn.rate[:, None])
    known = drawn.agreement - drawn.agreement.mean(axis=1, keepdims=True)
    slopes = _slopes(scores - scores.mean(axis=1, keepdims=True), known)
    known_before = np.cumsum(known, axis=0) - known
    return np.asarray((before - slopes * known_before) / left + (scores - slopes * known) / drawn.rate[:, None])


def pool_means(terms: Floats, drawn: DrawnLabels) -> Floats:
    """(m,) the means over the pool: every term is such an estimate, the more precise the fewer images are left."""
    if not len(terms):
        return np.zeros(terms.shape[1])
    expected = drawn.images / drawn.left  # of a term, where the mean is 1
    return np.asarray(expected @ terms / (expected**2).sum())


def excluded(terms: Floats, risk: float) -> NDArray[np.bool_]:
    """(n, m) after each label, which models are out: the evidence that they are not the best reached 1 / risk."""
    found = np.stack([_exclusion(terms, model) for model in range(terms.shape[1])], axis=1)
    return np.asarray(np.maximum.accumulate(found, axis=0) >= math.log(1 / risk))


def _exclusion(terms: Floats, model: int) -> Floats:
    return exclusion(np.delete(terms, model, axis=1) - terms[:, [model]], running_log_t)


def _slopes(deviations: Floats, known: Floats) -> Floats:
    """(n, m) by model the slope of its deviations on `known`, each from earlier labels alone."""
    found = np.zeros_like(deviations)
    start = FIRST_FIT
    while start < len(deviations):
        stop = max(int(start * REFIT), start + 1)
        x = known[:start] - known[:start].mean(axis=0)
        y = deviations[:start] - deviations[:start].mean(axis=0)
        squares = (x**2).sum(axis=0) * (1 + _PRIOR_LABELS / start)
        found[start:stop] = (x * y).sum(axis=0) / np.where(squares > 0, squares, 1.0)
        start = stop
    return found


def _labels_needed(differences: Floats, threshold: float, images: int) -> int | None:
    """About how many further labels a comparison takes."""
    spread = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    effect = abs(float(differences.mean())) / spread if spread > 0 else 0.0
    return t_labels_needed(effect, threshold, len(differences), images)
