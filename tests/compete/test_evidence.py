"""Weights, bootstrap, Bradley-Terry and stability on made-up pairwise."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.analysis.stability import Stability, measure_stability, spearman
from captrial.compete.ranking.bradley_terry import fit_bradley_terry, wins_by_metric
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ratios
from captrial.compete.ranking.result import bootstrap, rank_changes, rank_models
from compete import synthetic


def test_scores_are_means_over_each_pair() -> None:
    found = synthetic.pairwise_scores(seed=3)
    p = found.matrix()
    for pair in found.pairs:
        i, j = pair.models
        np.testing.assert_allclose([p[i, j], p[j, i]], pair.per_image.mean(axis=0))
    assert np.isnan(np.diag(p)).all()


def test_a_weight_is_shared_by_all_pairs_that_hold_the_image() -> None:
    found = synthetic.pairwise_scores(models=4, images=10, seed=1)
    weights = np.random.default_rng(0).integers(0, 3, (5, 10)).astype(float) + 0.5
    p = found.matrix(weights)
    for replicate in range(5):
        for pair in found.pairs:
            own = weights[replicate, pair.images]
            expected = (own[:, None] * pair.per_image).sum(axis=0) / own.sum()
            i, j = pair.models
            np.testing.assert_allclose([p[replicate, i, j], p[replicate, j, i]], expected)


def test_weights_of_one_change_nothing() -> None:
    found = synthetic.pairwise_scores(seed=2)
    np.testing.assert_allclose(found.matrix(np.ones((1, len(found.images))))[0], found.matrix())


def test_bootstrap_is_reproducible_and_covers_the_estimate() -> None:
    found = synthetic.pairwise_scores(models=4, images=60, share=0.7, seed=5)
    first, second = bootstrap(found, 400, seed=7), bootstrap(found, 400, seed=7)
    np.testing.assert_array_equal(first.scores, second.scores)
    q = ranking_vector(ratios(found.matrix()))
    low, high = first.score_interval()
    assert ((low < q) & (q < high)).all()
    rank_low, rank_high = first.rank_interval()
    assert (rank_low >= 1).all()
    assert (rank_high <= 4).all()
    assert (rank_low <= rank_high).all()
    np.testing.assert_allclose(first.beats + first.beats.T, np.where(np.eye(4, dtype=bool), np.nan, 1.0))
    assert first.first().sum() == pytest.approx(1)


def test_intervals_shrink_with_images() -> None:
    few, many = (bootstrap(synthetic.pairwise_scores(images=n, share=1.0, seed=1), 300) for n in (20, 500))
    width = [float(np.subtract(*r.score_interval()[::-1]).mean()) for r in (few, many)]
    assert width[1] < 0.4 * width[0]


@pytest.mark.slow
def test_intervals_hold_what_they_promise() -> None:
    """Draw many small competitions from one large one: 95% intervals must cover its ranking about that often."""
    truth = synthetic.pairwise_scores(models=3, images=4000, share=1.0, seed=0)
    final = ranking_vector(ratios(truth.matrix()))
    generator, covered = np.random.default_rng(1), []
    for _ in range(120):
        rows = generator.choice(4000, 80, replace=False)
        low, high = bootstrap(synthetic.restrict(truth, [rows] * 3), 200).score_interval()
        covered.append((low <= final) & (final <= high))
    assert 0.90 <= np.mean(covered) <= 0.99


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


def test_wins_are_counted_image_by_image() -> None:
    found = synthetic.pairwise_scores(models=2, images=8, share=1.0, seed=4)
    first, second = found.pairs[0].per_image.T
    wins = wins_by_metric(found)
    assert wins[0, 1] == (first > second).sum()
    assert wins[1, 0] == (second > first).sum()


def test_spearman_by_hand() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0, 3.0])) == pytest.approx(0.8)
    assert spearman(np.ones(3), np.array([1.0, 2.0, 3.0])) == 0
    assert spearman(np.ones(3), np.ones(3)) == 1


def test_stability_ends_at_one_and_flags_few_models() -> None:
    found = synthetic.pairwise_scores(models=5, images=40, share=1.0, seed=2)

    def first_images(k: int | None) -> PairwiseScores:
        return synthetic.restrict(found, [np.arange(k or 40)] * len(found.pairs))

    curve = measure_stability(first_images, first=5)
    assert curve.k == tuple(range(5, 41))
    assert curve.srcc[-1] == 1
    assert not curve.weak
    assert measure_stability(lambda k: synthetic.pairwise_scores(models=3)).weak


def test_stability_begins_where_labels_connect_all_models() -> None:
    found = synthetic.pairwise_scores(models=3, images=40, share=1.0, seed=2)

    def labelled_late(k: int | None) -> PairwiseScores:
        """Nothing is labelled among the first ten images of the pairs of the last model."""
        rows = np.arange(k or 40)
        return synthetic.restrict(found, [rows, rows[10:], rows[10:]])

    assert measure_stability(labelled_late, first=5).k == tuple(range(11, 41))


def test_settled_is_the_last_crossing() -> None:
    assert Stability("m", (5, 6, 7, 8), (0.95, 0.5, 0.95, 1.0), 5).settled(0.9) == 7
    assert Stability("m", (5, 6), (0.95, 0.5), 5).settled(0.9) is None
    assert Stability("m", (5, 6), (0.95, 1.0), 5).settled(0.9) == 5


def test_ranking_says_what_is_missing_and_what_was_added() -> None:
    partly = synthetic.pairwise_scores(models=3, images=12, seed=1)
    partly = synthetic.restrict(partly, [np.arange(6), np.arange(2), np.arange(0)])
    found = rank_models(partly, replicates=50)
    assert any("2 of 3 pairs are not fully labelled, 1 of them not at all" in note for note in found.notes)
    alone = synthetic.restrict(partly, [np.arange(1), np.arange(1), np.arange(0)])
    assert "2 of 3 pairs have one labelled image, over which there is no interval" in rank_models(alone, 50).notes
    smoothed = rank_models(synthetic.pairwise_scores(models=2, zeros=True), replicates=50)
    assert any("was added to every p" in note for note in smoothed.notes)
    assert smoothed.rows()[0]["model"] == "m0"


def test_ranking_as_json() -> None:
    found = rank_models(synthetic.pairwise_scores(models=3, images=30, share=1.0), replicates=50).to_json()
    assert found["p"][0][0] is None
    assert found["f"][0][0] == 1
    assert [row["rank"] for row in found["ranking"]] == [1, 2, 3]
    assert sum(row["score"] for row in found["ranking"]) == pytest.approx(1)
    assert {"model", "score", "low", "high", "rank"} <= found["ranking"][0].keys()


def test_rank_change_is_old_minus_new() -> None:
    found = rank_models(synthetic.pairwise_scores(models=3, images=200, share=1.0, seed=1), replicates=20)
    assert [row["model"] for row in found.rows()] == ["m0", "m1", "m2"]
    old = {"m0": {"made": 1.0}, "m1": {"made": 3.0}, "m2": {"made": 2.0}, "other": {"made": 9.0}}
    assert rank_changes(found, old) == {
        "m0": (3, 1, 2),
        "m1": (1, 2, -1),
        "m2": (2, 3, -1),
    }
