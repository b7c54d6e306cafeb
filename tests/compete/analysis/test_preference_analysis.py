"""The stop rule and the flip report for judgements."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from captrial.compete import Judgement, rank_preferences
from captrial.compete.analysis import flip_judgements, plan_judgements
from captrial.compete.analysis.preference_analysis import ImageGains
from captrial.compete.ranking.preferences import as_comparisons
from captrial.errors import InputError, StateError
from studies.preferences import replay_stop
from studies.simulated_judging import World


def test_gains_of_one_image() -> None:
    """x was preferred to y by two of three, x and z were tied, and nobody compared y with z."""
    judgements = [
        Judgement("1", "x", "y", 1.0),
        Judgement("1", "y", "x", 0.0),
        Judgement("1", "x", "y", 0.0),
        Judgement("1", "z", "x", 0.5),
        Judgement("2", "x", "y", 1.0),
    ]
    found = ImageGains(as_comparisons(judgements)[0])
    gains = np.stack([found.over(model) for model in range(3)], axis=2)  # (images, i, j)
    x, y, z = range(3)
    assert gains[0, x, y] == pytest.approx(2 * 2 / 3 - 1)  # direct
    assert gains[0, y, z] == pytest.approx(1 / 3 - 1 / 2)  # through x
    assert gains[0, x, z] == 0
    assert gains[1, x, y] == 1
    assert np.isnan(gains[1, [x, y], z]).all()
    known = ~np.isnan(gains)
    np.testing.assert_allclose(gains[known], -gains.transpose(0, 2, 1)[known])


def test_a_plan_for_two_hundred_models_stays_small() -> None:
    """Issue 17: gains of all pairs at once took gigabytes."""
    random = np.random.default_rng(0)
    pairs = [random.choice(200, 2, replace=False) for _ in range(2000)]
    judgements = [
        Judgement(f"image{number % 500}", f"m{one}", f"m{two}", float(random.random() < 0.5))
        for number, (one, two) in enumerate(pairs)
    ]
    tracemalloc.start()
    plan = plan_judgements(judgements)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not plan.settled
    assert peak < 100e6


def test_a_clear_winner_is_settled_and_a_tie_is_not() -> None:
    clear = World(models=4, gap=2.0).judgements(60, np.random.default_rng(0))
    plan = plan_judgements(clear)
    assert (plan.settled, plan.winner, plan.contenders, plan.images_needed) == (True, "m0", ("m0",), 0)
    assert "m0 is the best" in plan.summary()
    equal = World(models=2, spread=0.0).judgements(100, np.random.default_rng(1))
    plan = plan_judgements(equal)
    assert not plan.settled
    assert set(plan.contenders) == {"m0", "m1"}
    assert "may still be the best" in plan.summary()
    (rate,) = plan.win_rates
    assert rate.low < 0.5 < rate.high


def test_the_rule_keeps_its_word_when_models_are_equal() -> None:
    """Looked at after every image; the two best are equal, so any exclusion of one of them is an error of its own."""
    wrong = [replay_stop(World(models=3, spread=0.0), 60, seed, risk=0.2).wrong for seed in range(60)]
    assert np.mean(wrong) <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 60)


def test_the_order_needs_more_than_the_winner() -> None:
    judgements = World(models=4, gap=1.0, spread=0.4).judgements(120, np.random.default_rng(2))
    assert plan_judgements(judgements).settled
    order = plan_judgements(judgements, goal="order")
    assert not order.settled
    assert order.images_needed is None or order.images_needed > 0
    with pytest.raises(InputError, match="choose from winner, order"):
        plan_judgements(judgements, goal="podium")


def test_the_leader_is_that_of_the_ranking() -> None:
    """Also where all were compared with one model only: its gains are larger than those between the others."""
    losses = {"x": 60, "y": 5, "z": 5, "u": 5, "v": 5}  # of the reference, in 100
    judgements = [
        Judgement(f"{image:03d}", "reference", name, float(image >= lost))
        for name, lost in losses.items()
        for image in range(100)
    ]
    assert plan_judgements(judgements).winner == rank_preferences(judgements).rows()[0]["model"] == "x"


def test_images_that_are_not_complete_do_not_count() -> None:
    judgements = World(models=2, spread=3.0).judgements(40, np.random.default_rng(3))
    begun = [
        Judgement(one.image, one.first, one.second, one.outcome, complete=int(one.image) < 2) for one in judgements
    ]
    plan = plan_judgements(begun)
    assert (plan.images, plan.incomplete, plan.settled) == (2, 38, False)
    with pytest.raises(StateError, match="no image has all its judgements yet"):
        plan_judgements([one for one in begun if not one.complete])


def test_the_next_images_are_those_of_open_comparisons() -> None:
    judgements = World(models=3, spread=0.1).judgements(10, np.random.default_rng(4))
    unjudged = {("m0", "m1"): ["a", "b"], ("m1", "m2"): ["c"], ("m0", "m2"): ["d"]}
    plan = plan_judgements(judgements, unjudged=unjudged, most=3)
    assert len(plan.next_pairs) == 3
    assert all(plan.winner in pair[1:] for pair in plan.next_pairs)


def test_flip_finds_the_single_image_that_decides() -> None:
    judgements = [Judgement(str(n), "x", "y", float(n < 6)) for n in range(11)]  # 6 : 5
    found = flip_judgements(rank_preferences(judgements))
    assert (found.winner, found.new_winner, found.method) == ("x", None, "greedy upper bound") or found.removed
    judgements.append(Judgement("11", "x", "y", 0.0))  # 6 : 6, and twice in favour of x on one image
    judgements += [Judgement("12", "x", "y", 1.0), Judgement("13", "y", "x", 0.0)]  # 8 : 6
    found = flip_judgements(rank_preferences(judgements))
    assert found.winner == "x"
    assert len(found.removed) == 3  # two only tie
    assert found.new_winner == "y"


def test_flip_agrees_with_trying_all_sets() -> None:
    judgements = World(models=3, spread=0.3).judgements(14, np.random.default_rng(8))
    result = rank_preferences(judgements)
    found = flip_judgements(result)
    winner = result.models[result.order[0]]
    assert found.winner == winner

    def wins_without(images: tuple[str, ...]) -> bool:
        kept = [one for one in judgements if one.image not in images]
        scores = rank_preferences(kept, models=result.models).scores
        return bool(scores[result.models.index(winner)] >= scores.max() - 1e-9)

    assert not wins_without(found.removed)
    fewest = next(
        size
        for size in range(1, len(found.removed) + 1)
        if any(not wins_without(images) for images in itertools.combinations(result.images, size))
    )
    assert fewest <= len(found.removed) <= fewest + 1
    image, margin = found.influential[0]
    kept = [one for one in judgements if one.image != image]
    strength = np.sort(rank_preferences(kept).fit.strength)
    if len(found.removed) > 1:
        assert margin == pytest.approx(np.exp(strength[-1] - strength[-2]), rel=1e-6)
