"""Stability of the ranking in k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from captrial.compete.analysis.stability import Stability, measure_stability, spearman
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ratios
from captrial.compete.ranking.result import rank_models
from compete import synthetic


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


def test_stability_weighs_labelled_images_as_the_ranking_does() -> None:
    found = synthetic.pairwise_scores(models=5, images=40, share=1.0, seed=3)
    chance = np.where(np.arange(40) % 3, 0.9, 0.05)  # a third of the images stands for nearly everything
    uneven = replace(found, probability=chance)

    def first_images(k: int | None) -> PairwiseScores:
        return synthetic.restrict(uneven, [np.arange(k or 40)] * len(uneven.pairs))

    curve = measure_stability(first_images, first=39)
    weighted, plain = (
        ranking_vector(ratios(part.matrix()))
        for part in (first_images(39).weighted(), synthetic.restrict(found, [np.arange(39)] * len(found.pairs)))
    )
    final = rank_models(uneven).scores
    assert spearman(plain, final) != spearman(weighted, final)
    assert curve.srcc == (spearman(weighted, final), 1.0)
