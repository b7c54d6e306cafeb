"""The flip report against brute force that rebuilds the pairwise without the images."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from captrial.compete.analysis.flip import flip_report
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ratios
from compete import synthetic


def winner_without(pairwise: PairwiseScores, removed: tuple[str, ...]) -> str:
    gone = [pairwise.images.index(image) for image in removed]
    kept = synthetic.restrict(pairwise, [np.flatnonzero(~np.isin(pair.images, gone)) for pair in pairwise.pairs])
    return pairwise.models[int(np.argmax(ranking_vector(ratios(kept.matrix()))))]


def fewest(pairwise: PairwiseScores, most: int) -> int | None:
    winner = winner_without(pairwise, ())
    for size in range(1, most + 1):
        if any(winner_without(pairwise, chosen) != winner for chosen in combinations(pairwise.images, size)):
            return size
    return None


@pytest.mark.parametrize("seed", range(12))
def test_one_and_two_images_are_exact(seed: int) -> None:
    pairwise = synthetic.pairwise_scores(models=3, images=14, share=0.6, seed=seed)
    report = flip_report(pairwise)
    truth = fewest(pairwise, 2)
    assert report.winner == winner_without(pairwise, ())
    if truth is not None:
        assert (len(report.removed), report.method) == (truth, "exact")
    else:
        assert report.method == "greedy upper bound"
        assert len(report.removed) > 2 or not report.removed
    if report.removed:
        assert winner_without(pairwise, report.removed) == report.new_winner != report.winner


def test_the_seeds_above_meet_all_cases() -> None:
    sizes = {
        len(flip_report(synthetic.pairwise_scores(models=3, images=14, share=0.6, seed=seed)).removed)
        for seed in range(12)
    }
    assert {1, 2} < sizes


def test_influential_images_are_ordered_by_the_margin_they_leave() -> None:
    report = flip_report(synthetic.pairwise_scores(models=3, images=20, seed=3), influential=5)
    margins = [margin for _, margin in report.influential]
    assert len(margins) == 5
    assert margins == sorted(margins)


def test_zeros_left_by_a_removal_are_smoothed_as_everywhere() -> None:
    """One image holds all of model 1's score: without it p is 0, not dust left by subtraction."""
    pairwise = synthetic.pairwise_scores(models=2, images=5, share=1.0, seed=0)
    pair = pairwise.pairs[0]
    pair.statistics[:, 1, 0] = [0.0, 0.0, 0.3, 0.0, 0.0]
    pair.statistics[:, 0, 0] = [0.1, 0.2, 0.7, 0.1, 0.1]
    report = flip_report(pairwise)
    margins = dict(report.influential)
    left = 0.5 / 4
    assert margins["002"] == pytest.approx((left + 0.01 * left) / (0.01 * left))
    assert report.new_winner is None
    assert "No set of images" in report.summary()


def test_sentence_names_the_bound() -> None:
    for seed in range(12):
        report = flip_report(synthetic.pairwise_scores(models=3, images=14, share=0.6, seed=seed))
        if report.removed:
            several = len(report.removed) > 1
            assert ("no fewer do" in report.summary()) == (report.method == "exact" and several)
            assert ("perhaps fewer do" in report.summary()) == (report.method != "exact" and several)
