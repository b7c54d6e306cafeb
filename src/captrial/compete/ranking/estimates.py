"""Mean scores over the whole pool from a sample of it, every label being used for every model.

The score of model i on image x is split into the mean over the models, ybar_x, and the model's deviation from it,
d_ix = y_ix - ybar_x. Both are estimated from the labelled images, weighted by 1 / pi_x (pi_x: the probability that x is
labelled, see `selection.design`), with what is known of all images as control variates:

- The deviations have the agreement of a caption with the other models' captions, relative to the image's mean, as
  control variate (slopes by model, shrunk towards the slope of all), and are estimated as a ratio to the rates s_x
  (Hájek 1971): the expected difference between models shrinks with their disagreement, and where all captions are the
  same it is 0. For equal rates this is the plain mean.
- The mean over the models is a regression estimate (Cassel, Särndal and Wretman 1976) on the disagreement of the image.

An estimate is a sum of one term an image; these terms, computed without the image itself (as in HC3, MacKinnon and
White 1985) and reduced by sqrt(1 - pi_x) for a finite pool, give the variances of scores and differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.intervals import JointEstimate, effective_number

Floats = NDArray[np.float64]

FEWEST_FOR_SLOPES = 8  # with fewer labels, slopes cost more than they gain
FEWEST_SAMPLED = 8.5  # effective labels that intervals need; eight beside labels of D covered too little
_PRIOR_LABELS = 10.0  # the common slope counts as much as this many labels of a model
_LEVERAGE = 0.9  # at most, of one image


@dataclass(frozen=True)
class PoolSample:
    """What is known of the labelled images and of the pool without their labels."""

    probability: Floats  # (n,) of the image to be labelled
    rate: Floats  # (n,) s_x
    agreement: Floats  # (n, m) of each model's caption with the others'
    mean_rate: float  # over the pool
    mean_agreement: Floats  # (m,) over the pool
    images: int  # in the pool

    @property
    def complete(self) -> bool:
        """Whether the whole pool is labelled."""
        return len(self.probability) >= self.images


def pool_estimate(scores: Floats, sample: PoolSample, finite: bool = True) -> JointEstimate:
    """Mean scores over the pool from the scores (n, m) of the labelled images.

    With `finite`, uncertainty is about this pool: an image whose label was certain adds none.
    """
    weights = 1 / sample.probability  # (n,)
    level, level_terms, level_shares = _level(scores.mean(axis=1), sample, weights)
    deviations, terms, shares = _deviations(scores - scores.mean(axis=1, keepdims=True), sample, weights)
    kept = np.sqrt(1 - sample.probability)[:, None] if finite else 1.0
    return JointEstimate(
        value=level + deviations,
        terms=(level_terms[:, None] + terms) * kept,
        offsets=terms * kept,
        labels=float(effective_number(level_shares)),
        pair_labels=float(effective_number(shares)),
        support=effective_number(weights[:, None] * scores),
        # A variance is a sum of squares, so it rests on as many labels as the squared shares do (Satterthwaite 1946).
        freedom=float(effective_number(level_shares**2)) - 1 - (len(scores) >= FEWEST_FOR_SLOPES),
        fewest=FEWEST_SAMPLED,
    )


def _level(values: Floats, sample: PoolSample, weights: Floats) -> tuple[float, Floats, Floats]:
    """The pool's mean of `values` (n,), its terms (n,) and each image's share of the weight (n,)."""
    shares = weights / weights.sum()
    known = 1 - sample.agreement.mean(axis=1)
    mean, centre = float(shares @ values), float(shares @ known)
    spread = float(shares @ (known - centre) ** 2)
    slope, leverage = 0.0, shares
    if len(values) >= FEWEST_FOR_SLOPES and spread > 0:
        slope = float(shares @ ((known - centre) * (values - mean))) / spread
        leverage = shares * (1 + (known - centre) ** 2 / spread)
    missed = 1 - float(sample.mean_agreement.mean()) - centre  # how far the sample is from the pool
    residuals = (values - mean - slope * (known - centre)) / (1 - np.minimum(leverage, _LEVERAGE))
    # Each image is adjusted by the slope of the others: with its own, the estimate would be biased by a part in n.
    own = shares * (known - centre) * residuals / spread if slope else np.zeros(len(values))
    own = own * (1 - sample.probability)  # nothing is estimated where the label was certain
    return mean + slope * missed + float(shares @ (own * (known - centre - missed))), shares * residuals, shares


def _deviations(values: Floats, sample: PoolSample, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The pool's mean of each model's deviations (n, m): estimates (m,), terms (n, m), shares of the weight (n,)."""
    relative = sample.agreement - sample.agreement.mean(axis=1, keepdims=True)
    expected = sample.mean_agreement - sample.mean_agreement.mean()
    values = values - _slopes(values, relative, weights) * (relative - expected)
    shares = weights * sample.rate / (weights @ sample.rate)
    ratios = values / sample.rate[:, None]  # (n, m)
    found = shares @ ratios  # sum of w y / sum of w s
    residuals = (ratios - found) / (1 - np.minimum(shares, _LEVERAGE))[:, None]
    return sample.mean_rate * found, sample.mean_rate * shares[:, None] * residuals, shares


def _slopes(values: Floats, relative: Floats, weights: Floats) -> Floats:
    """(m,) of the deviations on the relative agreement, shrunk towards the slope of all models together."""
    if len(values) < FEWEST_FOR_SLOPES:
        return np.zeros(values.shape[1])
    shares = (weights / weights.sum())[:, None]
    centred = relative - (shares * relative).sum(axis=0)
    products = (shares * centred * (values - (shares * values).sum(axis=0))).sum(axis=0)
    squares = (shares * centred**2).sum(axis=0)
    if not squares.sum() > 0:  # two models agree with each other alike
        return np.zeros(values.shape[1])
    common = products.sum() / squares.sum()
    prior = squares.mean() * _PRIOR_LABELS / len(values)
    return np.asarray((products + prior * common) / (squares + prior))
