"""Claims of Wan 2022 on scores whose truth is known: they hold, fail or stay undecided by their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from captrial.compete.analysis.repetition import ModelRepetition
from captrial.compete.analysis.stability import measure_stability
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.result import rank_models
from captrial.papers import wan2022_claims as claims

NAMES = ("a", "b", "c", "d", "e")


def pairwise(
    levels: list[float], metric: str = "cider", images: int = 120, seed: int = 0, k: int = 40
) -> PairwiseScores:
    """Five models with these mean scores; every pair has k images of its own choice."""
    rng = np.random.default_rng(seed)
    scores = np.clip(rng.normal(levels, 0.1, (images, len(levels))), 0.01, None)
    pairs = {pair: np.sort(rng.permutation(images)[:k]) for pair in combinations(range(len(levels)), 2)}
    return PairwiseScores.of_scores(metric, NAMES[: len(levels)], scores, pairs)


APART = [0.9, 0.7, 0.55, 0.4, 0.25]
EQUAL = [0.5] * 5
NEAR = [0.54, 0.53, 0.51, 0.49, 0.47]


@pytest.mark.parametrize(("levels", "holds"), [(APART, True), (EQUAL, None)])
def test_one_dominates_all(levels: list[float], holds: bool | None) -> None:
    assert claims.dominance_claim(rank_models(pairwise(levels))).holds is holds


@pytest.mark.parametrize(
    ("first", "second", "holds"), [(APART, APART, True), (APART, APART[::-1], False), (NEAR, NEAR, None)]
)
def test_two_metrics_agree(first: list[float], second: list[float], holds: bool | None) -> None:
    found = claims.agreement_claim(pairwise(first), pairwise(second, "spice", seed=1))
    assert found.holds is holds, found.seen
    assert ("undecided" in found.seen) is (holds is None)


def test_ranks_differ_only_where_d_is_sure_of_another_order() -> None:
    external = dict(zip(NAMES, (90.0, 70.0, 55.0, 40.0, 25.0), strict=True))
    assert claims.change_claim(rank_models(pairwise(APART)), external).holds is False
    assert claims.change_claim(rank_models(pairwise(APART[::-1])), external).holds is True
    assert claims.change_claim(rank_models(pairwise(NEAR, seed=1)), external).holds is None


def test_equal_captioners_are_rarely_said_to_change_ranks() -> None:
    """Twenty competitions of equal captioners: the claim is decided by chance in at most two."""
    external = dict(zip(NAMES, (5.0, 4.0, 3.0, 2.0, 1.0), strict=True))
    decided = [claims.change_claim(rank_models(pairwise(EQUAL, seed=seed)), external).holds for seed in range(20)]
    assert sum(one is not None for one in decided) <= 2


@pytest.mark.parametrize(("levels", "holds"), [(APART, True), (EQUAL, None)])
def test_the_ranking_is_stable(levels: list[float], holds: bool | None) -> None:
    full = pairwise(levels, k=12)

    def score(k: int | None) -> PairwiseScores:
        pairs = {pair.models: pair.images[:k] for pair in full.pairs}
        table = np.random.default_rng(0).normal(levels, 0.1, (120, 5)).clip(0.01)
        return PairwiseScores.of_scores("cider", NAMES, table, pairs)

    found = claims.stability_claim(measure_stability(score), score)
    assert found.holds is holds or (holds is None and found.holds is False), found.seen


def repeated(*counts: int) -> list[ModelRepetition]:
    return [ModelRepetition(str(number), 1000, count, {}, ()) for number, count in enumerate(counts)]


@pytest.mark.parametrize(("counts", "holds"), [((300, 5), True), ((60, 50), False), ((7, 1), None), ((0, 0), None)])
def test_repetition_by_the_exact_interval(counts: tuple[int, int], holds: bool | None) -> None:
    assert claims.repetition_claim(repeated(*counts)).holds is holds


@dataclass
class Scored:
    """What `discrepancy_claims` reads of a scorer."""

    models: tuple[str, ...]
    scores: np.ndarray

    def image_scores(self, metric: str) -> np.ndarray:
        return self.scores

    def own_images(self, model: int) -> np.ndarray:
        return np.arange(len(self.scores))


@pytest.mark.parametrize(("drop", "holds"), [(0.3, True), (-0.3, False), (0.0, None)])
def test_captioners_score_less_on_d(drop: float, holds: bool | None) -> None:
    levels = np.array([0.9, 0.7, 0.6])
    scores = np.random.default_rng(3).normal(levels - drop, 0.3, (80, 3))
    on_d = dict(zip("abc", scores.mean(0), strict=True))
    everything = dict(zip("abc", levels, strict=True))
    scorer = Scored(("a", "b", "c"), scores)
    less, _ = claims.discrepancy_claims(scorer, "cider", everything, on_d)  # type: ignore[arg-type]
    assert less.holds is holds, less.seen
