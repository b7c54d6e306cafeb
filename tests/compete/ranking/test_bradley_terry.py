"""Bradley-Terry strengths, and agreement of metrics with people."""

from __future__ import annotations

import numpy as np

from captrial.compete.ranking.bradley_terry import (
    fit_bradley_terry,
    metric_agreement,
    rank_by_judgements,
    wins_by_metric,
)
from captrial.compete.storage.labels import Judgement
from compete import synthetic
from compete.competitions import Small


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


def test_people_rank_and_judge_the_metric(small: Small) -> None:
    pairwise = small.competition.scorer(small.competition.labels(small.references)).score("cider")
    judgements = []
    for pair in pairwise.pairs:
        first, second = (pairwise.models[model] for model in pair.models)
        for image, (a, b) in zip(pair.images, pair.per_image, strict=True):
            if a != b:
                judgements.append(Judgement(pairwise.images[image], second, first, float(b > a)))
    found = metric_agreement(pairwise, judgements)
    assert (found.tau, found.low, found.high) == (1, 1, 1)
    assert found.judgements == len(judgements)
    opposite = [Judgement(j.image, j.first, j.second, 1 - j.outcome) for j in judgements]
    assert metric_agreement(pairwise, opposite).tau == -1
    half = metric_agreement(pairwise, judgements[::2] + opposite[1::2])
    assert -0.5 < half.tau < 0.5
    assert half.low < half.tau < half.high
    unknown = [Judgement("nowhere", "model0", "model1", 1.0), Judgement(judgements[0].image, "model0", "model1", 0.5)]
    assert (metric_agreement(pairwise, unknown).judgements, metric_agreement(pairwise, unknown).left_out) == (0, 1)
    alone = metric_agreement(pairwise, judgements[:1])
    assert (alone.tau, alone.judgements) == (1, 1)
    assert np.isnan([alone.low, alone.high]).all()  # there is no interval over one image
    pairwise.pairs[0].per_image[0, 0] = np.nan  # the metric has nothing to say there
    silent = [j for j in judgements if j.image == pairwise.images[pairwise.pairs[0].images[0]] and j.first == "model1"]
    assert metric_agreement(pairwise, silent).left_out == len(silent)
    strengths = rank_by_judgements(pairwise.models, judgements).strength
    assert int(np.argmax(strengths)) == 0
