"""Judges and metrics beside people: biases that were put in are found, and nothing is claimed from a few votes."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete import Judgement
from captrial.errors import StateError
from captrial.judges import JudgeRecord, MachineVerdict, compare_judges, family_of, rank_by_judge
from captrial.judges.judge_comparison import NULL, agreement_estimate

IMAGES = 400


def verdicts(votes: np.ndarray, accuracy: float, position: float, own: float, seed: int) -> list[MachineVerdict]:
    """Both orders; `own`: how often it prefers model gpt-b whatever it is; `position`: the caption shown first."""
    random, found = np.random.default_rng(seed), []
    for image, vote in enumerate(votes):
        opinion = vote if random.random() < accuracy else 1 - vote
        for first in ("a", "gpt-b"):
            better = "a" if opinion else "gpt-b"
            better = "gpt-b" if random.random() < own else better
            better = first if random.random() < position else better
            found.append(MachineVerdict("j", str(image), "a", "gpt-b", first, better, cost=0.002))
    return found


def world(voted: int) -> tuple[list[Judgement], dict[str, JudgeRecord]]:
    random = np.random.default_rng(0)
    votes = (random.random(IMAGES) < 0.6).astype(float)
    people = [Judgement(str(image), "a", "gpt-b", float(votes[image])) for image in range(voted)]
    judges = {
        "good": ("claude-x", verdicts(votes, 0.95, 0.0, 0.0, 1)),
        "first": ("claude-x", verdicts(votes, 0.95, 0.6, 0.0, 2)),
        "vain": ("gpt-judge", verdicts(votes, 0.95, 0.0, 0.6, 3)),
        "coin": ("unknown", verdicts(votes, 0.5, 0.0, 0.0, 4)),
    }
    texts = {
        name: {str(n): "w " * (3 + (n % 2 == side)) for n in range(IMAGES)} for side, name in enumerate(("a", "gpt-b"))
    }
    metric = {"a": {str(n): float(votes[n]) for n in range(IMAGES)}, "gpt-b": {str(n): 0.5 for n in range(IMAGES)}}
    return people, {one.name: one for one in compare_judges(people, judges, {"oracle": metric}, texts)}


def test_what_was_put_in_is_found() -> None:
    _, found = world(200)
    assert found["oracle"].agreement.value == 1
    assert found["good"].agreement.low < 0.95 < found["good"].agreement.high
    for name in ("coin", NULL):
        assert found[name].agreement.low < 0.5 < found[name].agreement.high
        assert found[name].behind is not None
        assert found[name].behind.high < -0.2
    position = {name: found[name].position_bias for name in ("good", "first")}
    assert position["good"] is not None and position["first"] is not None  # noqa: PT018
    assert position["good"].low <= 0 <= position["good"].high
    assert position["first"].low > 0.2
    assert found["first"].contradictions is not None
    assert found["first"].contradictions > 0.5
    assert found["vain"].self_preference is not None
    assert found["vain"].self_preference.low > 0.2
    assert found["good"].self_preference is None  # no model of its family competes
    assert found["coin"].self_preference is None
    assert found["good"].cost == pytest.approx(4.0)
    assert found["oracle"].cost is None


def test_a_good_judge_saves_votes_and_a_coin_saves_none() -> None:
    _, found = world(40)
    assert found["good"].votes_saved is not None and found["good"].votes_saved > 30  # noqa: PT018
    assert found["coin"].votes_saved is not None and found["coin"].votes_saved < 8  # noqa: PT018


def test_few_votes_say_nothing() -> None:
    assert not any(one.enough for one in world(40)[1].values())
    assert all(one.enough for one in world(60)[1].values())
    with pytest.raises(StateError, match="about 50"):
        world(0)


def test_intervals_of_agreement_cover_also_where_items_share_images() -> None:
    """Four items an image that are alike; nominal 95%, 500 replays."""
    random, hits = np.random.default_rng(5), 0
    for _ in range(500):
        chance = np.repeat(random.beta(4, 1, 40), 4)
        right = (random.random(160) < chance).astype(float)
        found = agreement_estimate(right, np.repeat(np.arange(40), 4))
        hits += found.low <= 0.8 <= found.high
    assert 0.92 <= hits / 500 <= 0.985


def test_lengths_are_compared_with_what_people_prefer() -> None:
    random = np.random.default_rng(2)
    votes = random.random(200) < 0.5
    people = [Judgement(str(n), "a", "b", float(vote)) for n, vote in enumerate(votes)]
    texts = {"a": {str(n): "w " * (2 + n % 3) for n in range(200)}, "b": {str(n): "w w w" for n in range(200)}}
    longest = [MachineVerdict("j", str(n), "a", "b", "a", {0: "b", 1: None, 2: "a"}[n % 3]) for n in range(200)]
    found = compare_judges(people, {"longest": ("m", longest)}, {}, texts)
    bias = next(one for one in found if one.name == "longest").length_bias
    assert bias is not None
    assert 0.3 < bias.low < 0.5 < bias.high < 0.7
    assert bias.items == sum(n % 3 != 1 for n in range(200))


def test_families() -> None:
    assert family_of("gpt-4o-mini") == family_of("openai/gpt-4.1") == "OpenAI"
    assert family_of("ours") is None


def test_a_judge_that_nobody_checked_is_refused_or_says_so() -> None:
    judged = [one.judgement() for one in verdicts(np.ones(60), 0.9, 0.0, 0.0, 1)]
    with pytest.raises(StateError, match="JUDGE ONLY"):
        rank_by_judge([], judged, "j")
    alone = rank_by_judge([], judged, "j", unchecked=True)
    assert alone.judge_only
    assert alone.to_json()["judge_only"] is True
    assert any(note.startswith("JUDGE ONLY") for note in alone.notes)


def test_votes_that_are_no_random_part_are_noted() -> None:
    votes = np.array([1.0] * 60 + [0.0] * 340)
    judged = [one.judgement() for one in verdicts(votes, 1.0, 0.0, 0.0, 1)]
    people = [Judgement(str(n), "a", "gpt-b", 1.0) for n in range(60)]
    assert any("random part" in note for note in rank_by_judge(people, judged, "j").notes)
    mixed = [Judgement(str(n), "a", "gpt-b", float(votes[n])) for n in range(0, 400, 7)]
    result = rank_by_judge(mixed, judged, "j")
    assert not any("random part" in note for note in result.notes)
    assert result.ranking is not None
    assert result.ranking.rows()[0]["model"] == "gpt-b"
    assert result.plan is not None
    assert result.plan.settled


def test_votes_on_selected_images_do_not_correct_the_rest_of_the_pool() -> None:
    """The judge is right on the 100 selected images only, and the models differ there; people saw no others."""
    votes = np.array([1.0] * 100 + [0.0] * 300)
    right, wrong = verdicts(votes[:100], 1.0, 0.0, 0.0, 1), verdicts(votes, 0.0, 0.0, 0.0, 1)[200:]
    judged = [one.judgement() for one in (*right, *wrong)]
    selected = {(str(n), "a", "gpt-b"): 1 for n in range(100)}
    people = [Judgement(str(n), "a", "gpt-b", 1.0) for n in range(0, 100, 3)]
    found = rank_by_judge(people, judged, "j", for_people=selected)
    assert (found.items, found.votes) == (100, 34)
    assert "300 judged items are left out" in found.notes[0]
    everywhere = [*people, Judgement("250", "a", "gpt-b", 0.0), Judgement("300", "a", "gpt-b", 0.0)]
    assert rank_by_judge(everywhere, judged, "j", for_people=selected).items == 400


def test_to_know_the_better_model_saves_no_votes() -> None:
    """Three models of which each beats the next on 9 of 10 images; a judge that knows the order, not the image."""
    random, names = np.random.default_rng(4), ("a", "b", "c")
    people, judged = [], []
    for image in range(300):
        for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
            better = first if random.random() < 0.9 else second
            if image < 60:
                people.append(Judgement(str(image), first, second, float(better == first)))
            judged += [MachineVerdict("j", str(image), first, second, shown, first) for shown in (first, second)]
    texts = {name: {str(n): "w" for n in range(300)} for name in names}
    found = {one.name: one for one in compare_judges(people, {"order": ("m", judged)}, {}, texts)}["order"]
    assert found.agreement.value > 0.8
    assert found.votes_saved == pytest.approx(0, abs=0.5)
    assert found.cost is None  # nobody gave prices


def test_strata_of_the_design_are_weighted_by_their_items() -> None:
    """People voted on all 40 selected images, where `a` always wins, and on 10 of 160 sampled, where it never does."""
    votes = np.array([1.0] * 40 + [0.0] * 160)
    judged = [one.judgement() for one in verdicts(votes, 0.5, 0.0, 0.0, 1)]
    people = [Judgement(str(n), "a", "gpt-b", float(votes[n])) for n in (*range(40), *range(50, 200, 15))]
    strata = {(str(n), "a", "gpt-b"): int(n < 40) for n in range(200)}
    rate = rank_by_judge(people, judged, "j", for_people=strata).rates[0]
    assert rate.models == ("gpt-b", "a")
    assert rate.mean is not None
    assert rate.mean.corrected.mean == pytest.approx(0.8, abs=0.02)
    assert rank_by_judge(people, judged, "j").rates[0].models == ("a", "gpt-b")  # as if all were one random part
