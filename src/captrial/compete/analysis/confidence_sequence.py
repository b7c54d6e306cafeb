"""Anytime-valid evidence about a mean: e-processes and confidence sequences that hold whenever one looks.

An e-process is the wealth of somebody who bets at odds that are fair under the null hypothesis: they cannot expect to
win where it is true, and the chance that their wealth ever exceeds 1 / risk is at most the risk (Ville 1939). The null
hypothesis must hold for each number given those before it.

**Bounded numbers** (verdicts of people). The wealth is the mean over a fixed grid of stakes (a mixture; Waudby-Smith
and Ramdas 2024), so that it does not depend on the order of the numbers, and nothing has to be tuned.

    log_wealth(gains)         evidence against "the mean of gains in [-1, 1] is at most 0"
    mean_interval(values)     values of the mean of numbers in [0, 1] that are not refuted
    labels_needed(gains, ..)  how many more such values will probably do

**Numbers without a bound** (scores). The one-sided anytime-valid t-test (Lai 1976; Wang and Ramdas 2024): with n
numbers, their t statistic, and a normal prior of variance g = `PRIOR` on mean / standard deviation,

    E = (1 + n g)^(-1/2) ((1 + t^2 / v) / (1 + t^2 / (v (1 + n g))))^((v + 1) / 2),  v = n - 1

E averages the evidence of both directions, so that of the direction seen is at least 2 E - 1. It is exact for normal
numbers of unknown variance; numbers that are all the same say nothing, since nobody knows their variance.

    running_log_t(differences)  evidence against "their mean is at most 0", after each of them
    t_labels_needed(..)         how many more such numbers will probably do

**Which of several is the best** (`exclusion`). The evidence that a model is *not* the best is the mean of two
e-processes: the mean over its rivals of the evidence that the rival is better, and one that bets, number by number, on
the rival that has gained most so far. It must reach 1 / risk, however many rivals there are: only the best model can be
put out wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]

STAKES = np.geomspace(0.005, 0.995, 40)  # shares of the wealth; small ones for small differences
_BISECTIONS = 40
_MOST = 1e7  # values beyond which nothing is predicted
PRIOR = 0.05  # variance of the expected effects, mean / standard deviation of a difference
FEWEST = 10  # numbers before which the t-test says nothing
_ROUNDING = 1e-14  # share of a sum of squares that may be a rounding error
_LARGE = 500.0  # log evidence beyond which the other direction does not matter
_PRIOR_GAINS = 5.0  # numbers without gain that every rival begins with


def log_wealth(gains: Floats) -> float:
    """Log of an e-process against "the mean of the gains (n,) in [-1, 1] is at most 0".

    >>> round(log_wealth(np.ones(10)), 2), log_wealth(np.zeros(10))
    (4.04, 0.0)
    """
    return _log_mean(_log_growth(gains))


def running_log_wealth(gains: Floats) -> Floats:
    """`log_wealth` after each of the gains (n, ...), along the first axis; NaN is no gain."""
    columns = gains.reshape(len(gains), -1)
    found = np.zeros(columns.shape)
    for column in range(columns.shape[1]):  # one at a time: all stakes of all columns may not fit into memory
        known = ~np.isnan(columns[:, column])
        growth = np.log1p(STAKES * columns[known, column, None])  # (known, stakes)
        wealth = logsumexp(np.cumsum(growth, axis=0), axis=-1) - math.log(len(STAKES))
        found[:, column] = np.concatenate([[0.0], wealth])[np.cumsum(known)]
    return found.reshape(gains.shape)


def mean_interval(values: Floats, risk: float = 0.05) -> tuple[float, float]:
    """Bounds of the mean of values (n,) in [0, 1]; the chance that they are ever wrong is at most `risk`.

    Half of the wealth is staked on a larger mean, half on a smaller one.

    >>> low, high = mean_interval(np.tile([1.0, 1.0, 0.0, 1.0], 25))
    >>> round(low, 2), round(high, 2)
    (0.59, 0.87)
    """
    if not len(values):
        return 0.0, 1.0
    limit, middle = math.log(1 / risk), float(np.mean(values))

    def refuted(mean: float) -> bool:
        above = (values - mean) / mean if mean > 0 else np.where(values > 0, np.inf, 0.0)
        below = (mean - values) / (1 - mean) if mean < 1 else np.where(values < 1, np.inf, 0.0)
        up, down = (_log_mean(_log_growth(np.asarray(side))) for side in (above, below))
        return float(np.logaddexp(up, down)) - math.log(2) >= limit

    return _edge(refuted, middle, 0.0), _edge(refuted, middle, 1.0)


def labels_needed(gains: Floats, log_target: float) -> float:
    """How many more values like the gains (n,) until `log_wealth` reaches the target; inf where it never will."""
    if log_wealth(gains) >= log_target:
        return 0.0
    if not len(gains):
        return math.inf
    growth = _log_growth(gains) / len(gains)
    if growth.max() <= 0 or _log_mean(growth * _MOST) < log_target:
        return math.inf
    low, high = float(len(gains)), _MOST
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _log_mean(growth * middle) >= log_target else (middle, high)
    return max(high - len(gains), 1.0)


def running_log_t(differences: Floats) -> Floats:
    """Log evidence, after each of the differences (n, ...), that their mean is positive; -inf where there is none.

    >>> rng = np.random.default_rng(0)
    >>> bool(running_log_t(rng.normal(1, 1, 100))[-1] > 14), bool(running_log_t(rng.normal(-1, 1, 100)).max() < 3)
    (True, True)
    """
    count = np.arange(1, len(differences) + 1, dtype=np.float64).reshape(-1, *(1,) * (differences.ndim - 1))
    total = np.cumsum(differences, axis=0)
    squares = np.cumsum(differences**2, axis=0)
    spread = np.maximum(squares - total**2 / count, 0.0)  # sum of squared deviations
    known = spread > _ROUNDING * squares
    explained = np.where(known, total**2 / count / np.where(known, spread, 1.0), 0.0)  # t^2 / v
    both = log_t_evidence(explained, count)
    with np.errstate(divide="ignore"):
        one = np.where(
            both > _LARGE, both + math.log(2), np.log(np.maximum(2 * np.exp(np.minimum(both, _LARGE)) - 1, 0))
        )
    return np.asarray(np.where((count >= FEWEST) & (total > 0) & known, one, -np.inf))


def exclusion(gains: Floats, running: Callable[[Floats], Floats]) -> Floats:
    """(n,) log evidence, after each number, that a model is not the best; `gains` (n, rivals) of each rival over it.

    `running` is the log evidence of single rivals, `running_log_t` or `running_log_wealth`.
    """
    with np.errstate(invalid="ignore"):
        apart = logsumexp(running(gains), axis=1) - math.log(gains.shape[1])
    if gains.shape[1] == 1:
        return np.asarray(apart)
    return np.asarray(np.logaddexp(apart, running(_followed(gains))) - math.log(2))


def exclusion_share(models: int) -> float:
    """How many times 1 / risk the evidence of one rival alone must reach: half of the wealth follows the strongest."""
    return float(min(models - 1, 2))


def _followed(gains: Floats) -> Floats:
    """(n,) of gains (n, rivals), each time that of the rival with the largest mean gain before it; NaN if none."""
    known = ~np.isnan(gains)
    values = np.where(known, gains, 0.0)
    before = (np.cumsum(values, axis=0) - values) / (np.cumsum(known, axis=0) - known + _PRIOR_GAINS)
    chosen = np.argmax(np.where(known, before, -np.inf), axis=1)
    return np.asarray(gains[np.arange(len(gains)), chosen])


def log_t_evidence(explained: Floats, count: Floats) -> Floats:
    """log E for t^2 / v = `explained` after `count` numbers."""
    gain = 1 + count * PRIOR
    return np.asarray(-0.5 * np.log(gain) + count / 2 * (np.log1p(explained) - np.log1p(explained / gain)))


def t_labels_needed(effect: float, threshold: float, labels: int, images: int) -> int | None:
    """About how many further labels a comparison with this effect takes; labelling the whole pool always decides."""
    if labels < FEWEST:
        return FEWEST - labels
    if not effect > 0:
        return None
    low, high = labels, labels
    while log_t_evidence(np.array(effect**2), np.array(float(high))) < np.log((threshold + 1) / 2):
        low, high = high, 2 * high
        if high > _MOST:
            return images - labels
    while high - low > 1:
        middle = (low + high) // 2
        enough = log_t_evidence(np.array(effect**2), np.array(float(middle))) >= np.log((threshold + 1) / 2)
        low, high = (low, middle) if enough else (middle, high)
    return max(min(high, images) - labels, 1)


def _log_growth(gains: Floats) -> Floats:
    """(stakes,) log wealth of each stake; gains of at least -1 (more than 1 where a bet pays more)."""
    kinds, counts = np.unique(gains, return_counts=True)
    return np.asarray(counts @ np.log1p(STAKES[None, :] * kinds[:, None]))


def _log_mean(logs: Floats) -> float:
    largest = float(logs.max())  # scipy's logsumexp takes ten times as long for so few numbers
    return largest + math.log(float(np.exp(logs - largest).mean())) if math.isfinite(largest) else largest


def _edge(refuted: Callable[[float], bool], inside: float, outside: float) -> float:
    """The bound between a value that is not refuted and one end of the range."""
    if not refuted(outside):
        return outside
    for _ in range(_BISECTIONS):
        middle = 0.5 * (inside + outside)
        inside, outside = (inside, middle) if refuted(middle) else (middle, outside)
    return outside
