"""Bradley-Terry strengths with ties (Davidson 1970), covariates, and covariances that hold for clusters of comparisons.

A comparison of models i and j is won by i, won by j or a tie, with probabilities proportional to exp(eta / 2),
exp(-eta / 2) and nu, where eta = b_i - b_j + the effects of covariates; b is the log strength. Davidson's model is
chosen over that of Rao and Kupper (1967) because it keeps P(i wins) / P(j wins) = exp(eta) whatever the share of ties,
and because its log likelihood is concave in (b, effects, log nu): covariates enter linearly, and in the equations of
the strengths a tie counts as half a win for each.

Estimates are bias-reduced (Firth 1993): comparisons get extra weight by their leverage, half won by each side, in all
as much as there are free parameters. So a model that never lost keeps a finite strength; for two models with a and b
wins the log strengths differ by log((a + 1/2) / (b + 1/2)).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri, stdtrit

from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.errors import StateError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ALL = slice(None)
_STEPS = 500
_TOLERANCE = 1e-10
_ACCEPTED = 1e-6  # last step that counts as converged when steps are used up: rounding allows no smaller one
_LEAST_DAMPING = 1 / 16
_LARGEST_STEP = 2.0  # of a parameter in one Newton step
_PRIOR_CELLS = 2.0  # cells of full agreement added to those with repeated verdicts: a few cells say little
_SINGULAR = 1e-8  # share of a covariate's variation that must remain beside strengths and other covariates


@dataclass(frozen=True)
class Strengths:
    """Fitted strengths: model i beats j with probability `strength[i] / (strength[i] + strength[j])`."""

    strength: Floats  # (m,) summing to 1
    error: Floats  # (m,) standard error of log strength (relative to the mean)
    wins: Floats  # (m, m) wins of i over j; a tie is half a win for each


@dataclass(frozen=True)
class Comparisons:
    """Single comparisons of two models as arrays; those of one cluster (an image) may depend on each other."""

    models: int
    first: Ints  # (n,) models
    second: Ints  # (n,)
    outcome: Floats  # (n,) 1: the first won, 0: the second, 0.5: a tie
    cluster: Ints  # (n,)
    covariates: Floats  # (n, c); a positive value favours the first where the effect is positive
    counts: Floats | None = None  # (n,) independent comparisons that a row stands for; None: see `weights`

    @cached_property
    def cell(self) -> Ints:
        """(n,) a number for each pair of models in a cluster, whichever is first."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        keys = (self.cluster * self.models + low) * self.models + high
        return np.asarray(np.unique(keys, return_inverse=True)[1], np.int64)

    @cached_property
    def repeats(self) -> Ints:
        """(n,) how many verdicts there are on the pair in the cluster."""
        return np.asarray(np.bincount(self.cell)[self.cell])

    @cached_property
    def weights(self) -> Floats:
        """(n,) in the likelihood: repeated verdicts on one pair in one cluster share a weight of 1."""
        return 1.0 / self.repeats if self.counts is None else self.counts

    @property
    def connected(self) -> Ints:
        """(m,) a number for each set of models that chains of comparisons connect."""
        size = self.models
        graph = coo_array((np.ones(len(self.first)), (self.first, self.second)), shape=(size, size))
        return np.asarray(connected_components(graph, directed=False)[1], np.int64)

    def unidentified(self) -> list[int]:
        """Covariates that cannot be told from the strengths and from covariates before them."""
        design, found = _design(self), []
        start = self.models - 1
        for column in range(start, design.shape[1]):
            kept = [other for other in range(column) if other - start not in found]
            own = design[:, column]
            fitted = design[:, kept] @ np.linalg.lstsq(design[:, kept], own, rcond=None)[0]
            if ((own - fitted) ** 2).sum() <= _SINGULAR * max((own**2).sum(), 1e-300):
                found.append(column - start)
        return found

    def taken(self, rows: NDArray[np.bool_] | Ints) -> Comparisons:
        """Some of the comparisons."""
        parts = {name: getattr(self, name)[rows] for name in ("first", "second", "outcome", "cluster", "covariates")}
        return replace(self, **parts, counts=None if self.counts is None else self.counts[rows])


@dataclass(frozen=True)
class DavidsonFit:
    """Estimates and their covariance. Parameters: m log strengths (of mean 0), c effects of covariates, log nu."""

    strength: Floats  # (m,) log strengths
    effects: Floats  # (c,)
    log_nu: float  # -inf where there was no tie
    covariance: Floats  # (m + c + 1, m + c + 1) by the model, with dependence between repeated verdicts only
    _influence: Callable[[], Floats]

    @cached_property
    def influence(self) -> Floats:
        """(clusters, m + c + 1) estimates minus those without the cluster, to first order; clusters by number."""
        return self._influence()

    @cached_property
    def robust(self) -> Floats:
        """Covariance by the jackknife over clusters: (g - 1) / g times the sum of squared influences."""
        count = len(self.influence)
        return np.asarray((count - 1) / max(count, 1) * self.influence.T @ self.influence)

    def half_widths(self, combinations: Floats, tail: float, freedom: Ints) -> Floats:
        """Half widths (k,) of intervals of linear combinations (k, m + c + 1) of the parameters.

        The larger of model-based ones, by the normal quantile at `tail`, and robust ones, by Student's with `freedom`:
        robust ones alone are too short where one side won nearly everything, model-based ones where clusters matter.
        """
        model, robust = (
            np.sqrt(np.maximum(np.einsum("kp,pq,kq->k", combinations, part, combinations), 0.0))
            for part in (self.covariance, self.robust)
        )
        return np.asarray(np.maximum(-ndtri(tail) * model, -stdtrit(freedom, tail) * robust))

    @cached_property
    def joint(self) -> Floats:
        """(m, m) a covariance of the log strengths between model-based and robust, for joint statements."""
        size = len(self.strength)
        parts = [part[:size, :size] for part in (self.robust, self.covariance)]
        largest = np.sqrt(np.maximum(*(np.diag(part) for part in parts)))
        mixed = 0.5 * (parts[0] + parts[1])
        scale = largest / np.sqrt(np.where(np.diag(mixed) > 0, np.diag(mixed), 1.0))
        return np.asarray(scale[:, None] * mixed * scale)

    def win_rates(self) -> Floats:
        """(m, m) the share of comparisons that i wins against j, ties counting half, where all covariates are 0."""
        first, second, _ = probabilities(self.strength[:, None] - self.strength, self.log_nu)
        return np.asarray(0.5 + 0.5 * (first - second))

    def scores(self) -> Floats:
        """(m,) the mean of `win_rates` over the other models."""
        rates = self.win_rates()
        return np.asarray((rates.sum(axis=1) - 0.5) / max(len(rates) - 1, 1))

    def win_rate_gradients(self) -> Floats:
        """(m, m, m + c + 1) derivatives of `win_rates` by the parameters."""
        size = len(self.strength)
        _, slope, by_tie = _moments(*probabilities(self.strength[:, None] - self.strength, self.log_nu))
        identity = np.eye(size, len(self.covariance))
        found = slope[:, :, None] * (identity[:, None] - identity[None, :])
        found[:, :, -1] = by_tie
        return np.asarray(found)


class _Moments(NamedTuple):
    """Of a comparison with half a point for the winner, minus half for the loser, and none in a tie."""

    mean: Floats
    variance: Floats
    covariance: Floats  # with being a tie


def probabilities(eta: Floats, log_nu: float) -> tuple[Floats, Floats, Floats]:
    """Davidson's probabilities that the first wins, that the second wins, and of a tie (his Eqs. 2.1-2.2)."""
    high = np.maximum(np.abs(eta) / 2, log_nu)
    first, second, tie = np.exp(eta / 2 - high), np.exp(-eta / 2 - high), np.exp(log_nu - high)
    total = first + second + tie
    return first / total, second / total, tie / total


def fit_davidson(comparisons: Comparisons, start: DavidsonFit | None = None) -> DavidsonFit:
    """Fit log strengths, covariates and, where there are ties, nu; `start` is a fit to begin from.

    Strengths of models that nothing connects (see `Comparisons.connected`) have no meaning relative to each other.
    A model that won or lost everything has a finite strength (see the module's text). Newton's method; an error where
    it does not converge.
    """
    basis, design = _basis(comparisons.models), _design(comparisons)
    ties = bool((comparisons.outcome == 0.5).any())
    theta = np.zeros(design.shape[1] + 1)
    theta[-1] = np.log(_tie_odds(comparisons)) if ties else -np.inf
    if start is not None:
        theta[:-1] = [*(basis.T @ start.strength), *start.effects]
        theta[-1] = start.log_nu if ties and np.isfinite(start.log_nu) else theta[-1]
    before, damping = np.zeros(design.shape[1] + ties), 1.0
    for _ in range(_STEPS):
        state = _State(comparisons, design, theta, ties)
        step = damping * np.clip(state.solve(state.score), -_LARGEST_STEP, _LARGEST_STEP)
        if step @ before < 0 and np.abs(step).max() > 0.5 * np.abs(before).max():  # back and forth
            step, damping = step / 2, max(damping / 2, _LEAST_DAMPING)
        before = step
        theta = theta + (step if ties else np.append(step, 0.0))
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            break
    else:
        if not np.abs(before).max(initial=0.0) < _ACCEPTED:
            raise StateError(
                f"the Bradley-Terry fit of {len(comparisons.first)} comparisons did not converge in {_STEPS} steps; "
                "leave out a --control, or collect more judgements"
            )
    return _State(comparisons, design, theta, ties).result(basis)


def fit_bradley_terry(wins: Floats) -> Strengths:
    """Strengths from a table of independent wins, in which a tie is half a win for each.

    >>> fit_bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).strength.round(3)
    array([0.7, 0.3])
    """
    rows, columns = np.nonzero(wins)
    count, size = len(rows), len(wins)
    table = Comparisons(
        size, rows, columns, np.ones(count), np.arange(count), np.zeros((count, 0)), np.asarray(wins[rows, columns])
    )
    found = fit_davidson(table)
    strength = np.exp(found.strength - found.strength.max())
    return Strengths(strength / strength.sum(), np.sqrt(np.diag(found.covariance)[:size]), wins)


def wins_by_metric(pairwise: PairwiseScores) -> Floats:
    """Wins (m, m) on the labelled images of every D_ij; equal scores are half a win each.

    An image counts by the inverse of its probability to be labelled, those of a pair together as many as there are.
    """
    wins = np.zeros((len(pairwise.models), len(pairwise.models)))
    for pair in pairwise.pairs:
        first, second = pair.per_image.T
        known = ~np.isnan(first + second)
        if not known.any():
            continue
        weights = pairwise.pair_weights(pair)[known]
        weights = weights / weights.mean()
        ahead = np.sign(first[known] - second[known])
        ties = 0.5 * float(weights @ (ahead == 0))
        i, j = pair.models
        wins[i, j] += float(weights @ (ahead > 0)) + ties
        wins[j, i] += float(weights @ (ahead < 0)) + ties
    return wins


class _State:
    """Score and information at one value of the parameters: m - 1 strengths in the basis, effects, log nu."""

    def __init__(self, comparisons: Comparisons, design: Floats, theta: Floats, ties: bool) -> None:
        self.data, self.design, self.theta, self.ties = comparisons, design, theta, ties
        first, second, self.tie = probabilities(design @ theta[:-1], float(theta[-1]))
        self.mean, self.variance, self.by_tie = _moments(first, second, self.tie)
        weights = comparisons.weights
        plain = self.information(weights)
        inverse = np.linalg.pinv(plain, hermitian=True)
        size = design.shape[1]
        self.leverage = weights * self.variance * ((design @ inverse[:size, :size]) * design).sum(axis=1)
        # h extra comparisons, half won by each side, with the model's own share of ties
        self.bread = self.information(weights + self.leverage)
        self.residual = comparisons.outcome - 0.5 - self.mean
        self.is_tie = (comparisons.outcome == 0.5).astype(np.float64)
        gained = weights * self.residual - self.leverage * self.mean
        self.score = design.T @ gained
        if ties:  # one more comparison, half a tie
            share = float(np.average(self.tie, weights=weights))
            self.bread[-1, -1] += share * (1 - share)
            self.score = np.append(self.score, (weights * (self.is_tie - self.tie)).sum() + 0.5 - share)

    def information(self, weights: Floats, rows: Ints | slice = _ALL) -> Floats:
        """Fisher information (p, p) of weighted comparisons, all or some; without log nu where there are no ties."""
        design, tie = self.design[rows], self.tie[rows]
        inner = design.T @ ((weights * self.variance[rows])[:, None] * design)
        if not self.ties:
            return np.asarray(inner)
        across = design.T @ (weights * self.by_tie[rows])
        corner = float((weights * tie * (1 - tie)).sum())
        return np.block([[inner, across[:, None]], [across[None, :], np.array([[corner]])]])

    def solve(self, right: Floats) -> Floats:
        return np.asarray(np.linalg.pinv(self.bread, hermitian=True) @ right)

    def result(self, basis: Floats) -> DavidsonFit:
        size, models = self.design.shape[1], self.data.models
        shape = np.zeros((models + size - (models - 1) + 1, len(self.bread)))  # from these parameters to all
        shape[:models, : models - 1] = basis
        shape[models : models + size - (models - 1), models - 1 : size] = np.eye(size - (models - 1))
        if self.ties:
            shape[-1, -1] = 1.0
        inverse = np.linalg.pinv(self.bread, hermitian=True)
        covariance = inverse @ self.information(self.spread() + self.leverage) @ inverse
        return DavidsonFit(
            basis @ self.theta[: models - 1],
            self.theta[models - 1 : -1],
            float(self.theta[-1]),
            shape @ covariance @ shape.T,
            lambda: self.influence() @ shape.T,
        )

    def spread(self) -> Floats:
        """(n,) weights of the comparisons in the model-based variance of the score.

        J verdicts of weight 1/J on one pair in one cluster count as (1 + (J - 1) rho) / J independent ones, where rho
        is the correlation of such verdicts over all cells.
        """
        if self.data.counts is not None:
            return self.data.weights
        repeats = self.data.repeats
        several = repeats > 1
        if not several.any():
            return self.data.weights
        oriented = np.where(self.data.first < self.data.second, self.residual, -self.residual)
        cells = np.unique(self.data.cell[several], return_inverse=True)[1]
        sums, squares, expected, counts = (
            np.bincount(cells, values)
            for values in (oriented[several], oriented[several] ** 2, self.variance[several], np.ones(several.sum()))
        )
        together = ((sums**2 - squares) / (counts * (counts - 1))).sum()
        alone = (expected / counts).sum()
        prior = _PRIOR_CELLS * alone / len(counts)
        rho = float(np.clip((together + prior) / (alone + prior), 0.0, 1.0))
        return np.asarray((1 + (repeats - 1) * rho) / repeats**2)

    def influence(self) -> Floats:
        """(clusters, p): the step from the estimates without a cluster to those with it, one Newton step."""
        weights = self.data.weights
        cluster = np.unique(self.data.cluster, return_inverse=True)[1]
        order = np.argsort(cluster, kind="stable")
        bounds = np.searchsorted(cluster[order], np.arange(cluster.max(initial=-1) + 2))
        rows = self.design * (weights * self.residual)[:, None]
        if self.ties:
            rows = np.column_stack([rows, weights * (self.is_tie - self.tie)])
        found = np.empty((len(bounds) - 1, rows.shape[1]))
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            own = order[begin:end]
            rest = self.bread - self.information(weights[own], own)
            found[number] = np.linalg.lstsq(rest, rows[own].sum(axis=0), rcond=None)[0]
        return found


def _moments(first: Floats, second: Floats, tie: Floats) -> _Moments:
    mean = 0.5 * (first - second)
    return _Moments(mean, 0.25 * (first + second) - mean**2, -mean * tie)


def _basis(models: int) -> Floats:
    """(m, m - 1) orthonormal columns of sum 0."""
    columns = np.eye(models)[:, 1:] - 1.0 / models
    return np.asarray(np.linalg.qr(columns)[0])


def _design(comparisons: Comparisons) -> Floats:
    """(n, m - 1 + c): eta by the parameters."""
    basis = _basis(comparisons.models)
    return np.concatenate([basis[comparisons.first] - basis[comparisons.second], comparisons.covariates], axis=1)


def _tie_odds(comparisons: Comparisons) -> float:
    """nu between equal models that gives the share of ties."""
    share = float(np.average(comparisons.outcome == 0.5, weights=comparisons.weights))
    return 2 * share / max(1 - share, 1e-3)
