"""The ranking with its bootstrap intervals, notes and JSON."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.ranking.perron import ranking_vector, ratios
from captrial.compete.ranking.result import bootstrap, rank_changes, rank_models
from compete import synthetic


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
