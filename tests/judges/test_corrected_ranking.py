"""Corrected Bradley-Terry strengths: a biased judge is corrected, a good one narrows, an unchecked one is refused."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete import Judgement
from captrial.errors import StateError
from captrial.judges import CorrectedRanking, rank_corrected

NAMES = ("a", "b", "c")
STRENGTH = np.array([0.8, 0.0, -0.8])


def battles(seed: int, accuracy: float, bias: float = 0.0, images: int = 200) -> CorrectedRanking:
    """Three models; the judge follows people with `accuracy` and gives c the win with probability `bias`."""
    random = np.random.default_rng(seed)
    people, verdicts = [], []
    for image in range(images):
        for i, j in ((0, 1), (0, 2), (1, 2)):
            vote = float(random.random() < 1 / (1 + np.exp(STRENGTH[j] - STRENGTH[i])))
            verdict = vote if random.random() < accuracy else 1 - vote
            verdict = 0.0 if j == 2 and random.random() < bias else verdict
            verdicts.append(Judgement(str(image), NAMES[i], NAMES[j], verdict))
            if image < images // 10:
                people.append(Judgement(str(image), NAMES[i], NAMES[j], vote))
    return rank_corrected(people, verdicts)


def true_scores() -> np.ndarray:
    rates = 1 / (1 + np.exp(STRENGTH[None, :] - STRENGTH[:, None]))
    return np.asarray((rates.sum(axis=1) - 0.5) / 2)


@pytest.mark.parametrize(("accuracy", "bias"), [(0.95, 0.0), (0.8, 0.6), (0.4, 0.0)])
def test_intervals_of_scores_cover(accuracy: float, bias: float) -> None:
    truth = true_scores()
    covered: list[np.ndarray] = []
    alone: list[np.ndarray] = []
    for seed in range(150):
        found = battles(seed, accuracy, bias)
        for result, kept in ((found.corrected, covered), (found.judge, alone)):
            low, high = result.score_intervals()
            kept.append((low <= truth) & (truth <= high))
    assert 0.91 <= np.mean(covered) <= 0.995
    if accuracy < 0.9:
        assert np.mean(alone) < 0.6, "the judge alone is wrong about people"


def test_strata_of_the_design_correct_strengths_too() -> None:
    """20 images on which `b` wins 9 of 10 times have half of the votes, 180 on which `a` wins 8 of 10 the others."""
    covered: dict[bool, list[bool]] = {False: [], True: []}
    hard, names = np.arange(200) < 20, [str(number) for number in range(200)]
    for seed in range(60):
        random = np.random.default_rng(seed)
        votes = (random.random(200) < np.where(hard, 0.1, 0.8)).astype(float)
        verdicts = np.where(random.random(200) < 0.85, votes, 1 - votes)
        verdicts[random.random(200) < 0.3] = 0.0  # and it likes `b`
        judged = [Judgement(name, "a", "b", float(verdict)) for name, verdict in zip(names, verdicts, strict=True)]
        people = [Judgement(names[at], "a", "b", float(votes[at])) for at in (*range(18), *range(20, 38))]
        for stratified, hits in covered.items():
            found = rank_corrected(people, judged, strata=hard.astype(np.int64) if stratified else None).corrected
            low, high = found.score_intervals()
            hits.append(bool(low[0] <= 0.1 * 0.1 + 0.9 * 0.8 <= high[0]))
    assert np.mean(covered[True]) >= 0.88
    assert np.mean(covered[False]) < 0.5


def test_a_good_judge_narrows() -> None:
    found = [battles(seed, 0.95) for seed in range(10)]
    widths = [
        np.mean(np.subtract(*one.corrected.score_intervals()[::-1]))
        / np.mean(np.subtract(*one.people.score_intervals()[::-1]))
        for one in found
    ]
    assert np.mean(widths) < 0.7
    assert np.mean([one.effective_votes for one in found]) > 1.8 * found[0].votes


def test_a_judge_that_nobody_checked_is_refused() -> None:
    verdicts = [Judgement(str(n), "a", "b", 1.0) for n in range(30)]
    with pytest.raises(StateError, match="JUDGE ONLY"):
        rank_corrected([], verdicts)


def test_a_model_that_people_never_saw_is_refused() -> None:
    verdicts = [Judgement(str(n), "a", other, float(n % 3 > 0)) for n in range(60) for other in "bc"]
    people = [Judgement(str(n), "a", "b", float(n % 3 > 0)) for n in range(20)]
    with pytest.raises(StateError, match="no judgements connect c"):
        rank_corrected(people, verdicts)


def test_ties_of_people_alone_are_kept() -> None:
    random = np.random.default_rng(0)
    outcomes = random.choice([0.0, 0.5, 1.0], 300)
    verdicts = [Judgement(str(n), "a", "b", float(value > 0.2)) for n, value in enumerate(outcomes)]
    people = [Judgement(str(n), "a", "b", float(value)) for n, value in enumerate(outcomes[:60])]
    found = rank_corrected(people, verdicts).corrected
    assert np.isfinite(found.fit.log_nu)
    assert np.isfinite(found.scores).all()
    low, high = found.score_intervals()
    assert ((low < outcomes.mean()) & (outcomes.mean() < high))[0]
