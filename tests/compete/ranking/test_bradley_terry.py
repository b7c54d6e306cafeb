"""Bradley-Terry and Davidson: known solutions, recovery of simulated parameters, covariances against refitting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from captrial.compete.ranking import bradley_terry
from captrial.compete.ranking.bradley_terry import (
    Comparisons,
    fit_bradley_terry,
    fit_davidson,
    probabilities,
    wins_by_metric,
)
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.errors import StateError
from compete import synthetic

STRENGTH = np.array([0.9, 0.3, -0.2, -1.0])
EFFECTS = np.array([0.4, -0.7])  # of being first, and of a covariate
NU = 0.5


def simulated(images: int = 300, seed: int = 0, ties: bool = True) -> Comparisons:
    """Every pair of four models on every image, in random order, with two covariates."""
    random = np.random.default_rng(seed)
    low, high = np.triu_indices(4, 1)
    first, second = np.tile(low, images), np.tile(high, images)
    swap = random.random(len(first)) < 0.5
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    covariates = np.column_stack([np.ones(len(first)), random.uniform(-1, 1, len(first))])
    eta = STRENGTH[first] - STRENGTH[second] + covariates @ EFFECTS
    won, lost, _ = probabilities(eta, np.log(NU) if ties else -np.inf)
    draw = random.random(len(first))
    outcome = np.where(draw < won, 1.0, np.where(draw < won + lost, 0.0, 0.5))
    return Comparisons(4, first, second, outcome, np.repeat(np.arange(images), len(low)), covariates)


def test_bradley_terry_recovers_strengths() -> None:
    strength = np.array([0.5, 0.3, 0.2])
    games = 20_000.0
    wins = games * strength[:, None] / (strength[:, None] + strength[None, :])
    np.fill_diagonal(wins, 0.0)
    found = fit_bradley_terry(wins)
    np.testing.assert_allclose(found.strength, strength, rtol=1e-3)
    assert (found.error < 0.02).all()
    assert (fit_bradley_terry(wins / 100).error > 5 * found.error).all()


def test_bradley_terry_is_finite_when_somebody_never_lost() -> None:
    found = fit_bradley_terry(np.array([[0.0, 5.0, 5.0], [0.0, 0.0, 3.0], [0.0, 2.0, 0.0]]))
    assert found.strength[0] > 0.7
    assert np.isfinite(found.error).all()
    assert (fit_bradley_terry(np.zeros((3, 3))).strength == 1 / 3).all()


@pytest.mark.parametrize(("won", "lost"), [(3, 1), (10, 0), (7, 7)])
def test_two_models_have_half_a_win_more_each(won: int, lost: int) -> None:
    found = fit_bradley_terry(np.array([[0.0, won], [lost, 0.0]]))
    assert found.strength[0] / found.strength[1] == pytest.approx((won + 0.5) / (lost + 0.5))
    variance = 1 / (won + 0.5) + 1 / (lost + 0.5)  # of the difference of the log strengths
    assert (2 * found.error[0]) ** 2 == pytest.approx(variance)


def test_parameters_are_recovered() -> None:
    """Over many draws, errors are as large as the covariances say."""
    truth = np.array([*STRENGTH, *EFFECTS, np.log(NU)])
    fits = [fit_davidson(simulated(200, seed)) for seed in range(60)]
    errors = np.array([[*fit.strength, *fit.effects, fit.log_nu] for fit in fits]) - truth
    for covariance in ([fit.covariance for fit in fits], [fit.robust for fit in fits]):
        scaled = errors / np.sqrt([np.diag(one) for one in covariance])
        assert (np.abs(scaled.mean(axis=0)) < 4 / np.sqrt(60)).all()
        assert (np.abs((scaled**2).mean(axis=0) - 1) < 4 * np.sqrt(2 / 60)).all()


def test_the_estimate_maximises_the_likelihood_for_many_comparisons() -> None:
    """Against a general optimiser on Davidson's likelihood, written down a second time."""
    data = simulated(1500)

    def loss(theta: np.ndarray) -> float:
        strength, effects, log_nu = np.append(theta[:3], -theta[:3].sum()), theta[3:5], theta[5]
        eta = strength[data.first] - strength[data.second] + data.covariates @ effects
        pi, pj = np.exp(eta / 2), np.exp(-eta / 2)
        total = pi + pj + np.exp(log_nu)
        chosen = np.select([data.outcome == 1, data.outcome == 0], [pi, pj], np.exp(log_nu))
        return -float(np.log(chosen / total).sum())

    best = minimize(loss, np.zeros(6)).x
    found = fit_davidson(data)
    np.testing.assert_allclose(found.strength[:3], best[:3], atol=0.003)  # bias reduction moves it by about 1/n
    np.testing.assert_allclose([*found.effects, found.log_nu], best[3:], atol=0.003)


def test_influence_is_what_removing_an_image_changes() -> None:
    data = simulated(60)
    found = fit_davidson(data)
    for image in range(0, 60, 15):
        without = fit_davidson(data.taken(data.cluster != image))
        np.testing.assert_allclose(found.influence[image, :4], found.strength - without.strength, atol=3e-3)
        np.testing.assert_allclose(found.influence[image, 4:6], found.effects - without.effects, atol=3e-3)


def test_gradients_of_win_rates() -> None:
    found = fit_davidson(simulated(100))
    gradients, step = found.win_rate_gradients(), 1e-6
    for parameter in (0, 3):
        moved = replace(found, strength=found.strength + step * np.eye(4)[parameter])
        numeric = (moved.win_rates() - found.win_rates()) / step
        np.testing.assert_allclose(gradients[:, :, parameter], numeric, atol=1e-5)
    moved = replace(found, log_nu=found.log_nu + step)
    np.testing.assert_allclose(gradients[:, :, -1], (moved.win_rates() - found.win_rates()) / step, atol=1e-5)


def test_the_order_of_the_two_does_not_matter() -> None:
    data = simulated(80)
    turned = Comparisons(4, data.second, data.first, 1 - data.outcome, data.cluster, -data.covariates)
    one, other = fit_davidson(data), fit_davidson(turned)
    np.testing.assert_allclose(one.strength, other.strength, atol=1e-8)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-8)
    np.testing.assert_allclose(one.robust, other.robust, atol=1e-8)


def test_a_verdict_given_three_times_counts_once() -> None:
    data = simulated(80)
    thrice = data.taken(np.repeat(np.arange(len(data.first)), 3))
    one, other = fit_davidson(data), fit_davidson(thrice)
    np.testing.assert_allclose(one.strength, other.strength, atol=1e-8)
    np.testing.assert_allclose(one.robust, other.robust, atol=1e-8)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-3)


def test_independent_judges_count_as_more() -> None:
    """Three judges of one pair whose verdicts do not depend on each other: close to a third of the variance."""
    random = np.random.default_rng(3)
    images = 400
    zeros, three = np.zeros(3 * images, np.int64), np.repeat(np.arange(images), 3)
    outcome = (random.random(3 * images) < 0.7).astype(float)
    data = Comparisons(2, zeros, zeros + 1, outcome, three, np.zeros((3 * images, 0)))
    alone = data.taken(np.arange(0, 3 * images, 3))
    share = fit_davidson(data).covariance[0, 0] / fit_davidson(alone).covariance[0, 0]
    assert 0.28 < share < 0.42


def test_what_cannot_be_told_from_the_strengths() -> None:
    data = simulated(20)
    assert data.unidentified() == []
    one_order = data.taken((data.first < data.second) & (data.first == 0))
    assert one_order.unidentified() == [0]  # the first model is always the same: being first is being that model
    assert data.connected.max() == 0
    assert data.taken((data.first < 2) & (data.second < 2)).connected.max() == 2


def test_wins_are_counted_image_by_image() -> None:
    found = synthetic.pairwise_scores(models=2, images=8, share=1.0, seed=4)
    first, second = found.pairs[0].per_image.T
    wins = wins_by_metric(found)
    assert wins[0, 1] == (first > second).sum()
    assert wins[1, 0] == (second > first).sum()


def test_a_fit_that_has_not_converged_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wins = np.array([[0.0, 30.0, 40.0], [1.0, 0.0, 25.0], [0.0, 2.0, 0.0]])
    fit_bradley_terry(wins)
    monkeypatch.setattr(bradley_terry, "_STEPS", 2)
    with pytest.raises(StateError, match="did not converge in 2 steps"):
        fit_bradley_terry(wins)


def test_separated_models_have_finite_strengths() -> None:
    """Each of twelve models beats all later ones a thousand times and never loses."""
    wins = 1000.0 * np.triu(np.ones((12, 12)), 1)
    strength = fit_bradley_terry(wins).strength
    assert np.isfinite(strength).all()
    assert (np.diff(strength) < 0).all()


def test_wins_weigh_images_by_inverse_probability() -> None:
    scores = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    labelled = {0: 1.0, 1: 1.0, 2: 0.25}  # the third stands for the last four
    found = PairwiseScores.of_scores("made", ["a", "b"], scores, {(0, 1): np.arange(6)}, labelled)
    np.testing.assert_allclose(wins_by_metric(found), [[0, 1], [2, 0]])
