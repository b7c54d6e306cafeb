"""Rankings by preferences: intervals, ties, controls, errors, and the agreement of metrics with people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import captrial
from captrial.compete import Judgement, rank_preferences
from captrial.compete.ranking.agreement_with_people import metric_agreement
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.preferences import FEWEST_IMAGES
from captrial.errors import InputError, StateError
from compete.competitions import Small
from studies.simulated_judging import World, coverage


def battles(images: int = 30, better: float = 0.75) -> list[Judgement]:
    won = np.random.default_rng(1).random(images) < better
    return [Judgement(str(image), "strong", "weak", float(win)) for image, win in enumerate(won)]


def test_the_stronger_model_is_first() -> None:
    found = rank_preferences(battles())
    first, second = found.rows()
    assert [first["model"], second["model"]] == ["strong", "weak"]
    assert first["low"] < first["score"] < first["high"]
    assert first["score"] + second["score"] == pytest.approx(1)
    assert (first["rank_low"], first["rank_high"], first["first"] > 0.97) == (1, 1, True)
    (pair,) = found.pairs()
    assert pair.models == ("strong", "weak")
    assert pair.wins + pair.ties + pair.losses == pair.judgements == 30
    assert found.to_json()["p"][0][1] == pytest.approx(pair.observed)


def test_equal_models_are_tied() -> None:
    found = rank_preferences([Judgement(str(n), "x", "y", float(n % 2)) for n in range(40)])
    for row in found.rows():
        assert (row["rank"], row["rank_low"], row["rank_high"]) == (1, 1, 2)
        assert row["first"] == pytest.approx(0.5, abs=0.05)
    only_ties = rank_preferences([Judgement(str(n), "x", "y", 0.5) for n in range(20)])
    assert [row["score"] for row in only_ties.rows()] == pytest.approx([0.5, 0.5])


def test_no_interval_from_too_few_images() -> None:
    found = rank_preferences(battles(FEWEST_IMAGES - 1, 1.0))
    for row in found.rows():
        assert (row["low"], row["high"], row["first"]) == (None, None, None)
        assert (row["rank_low"], row["rank_high"]) == (1, 2)
    assert any(f"below {FEWEST_IMAGES}" in note for note in found.notes)
    many = [Judgement("0", "strong", "weak", 1.0)] * 100  # of one image: still too few
    assert rank_preferences(many).rows()[0]["low"] is None
    assert rank_preferences(battles(FEWEST_IMAGES, 1.0)).rows()[0]["low"] < 0.6


def test_length_explains_a_preference_away() -> None:
    """Judges who prefer the longer caption and nothing else; one model writes more."""
    random = np.random.default_rng(0)
    judgements = []
    for image in range(600):
        long, short = int(random.integers(8, 30)), int(random.integers(6, 20))
        better = random.random() < 1 / (1 + np.exp(-4 * (long - short) / (long + short)))
        judgements.append(Judgement(str(image), "long", "short", float(better), words=(long, short)))
    plain, controlled = rank_preferences(judgements), rank_preferences(judgements, control=["length"])
    assert plain.rows()[0]["low"] > 0.55
    assert plain.rows()[0]["model"] == "long"
    low, high = (controlled.rows()[0][name] for name in ("low", "high"))
    assert low < 0.5 < high
    (effect,) = controlled.effects()
    assert effect.low < np.exp(4 / 3) < effect.high


def test_position_bias_is_found_and_removed() -> None:
    world = World(models=3, spread=0.6, position=0.8)
    judgements = world.judgements(500, np.random.default_rng(2))
    found = rank_preferences(judgements, control=["position"])
    (effect,) = found.effects()
    assert effect.low < np.exp(0.8) < effect.high
    low, high = found.score_intervals()
    truth = world.truth().scores()
    assert ((low < truth) & (truth < high)).all()
    unbalanced = [one if one.first < one.second else _turned(one) for one in judgements]
    few = rank_preferences([replace(one, image="7") for one in judgements], control=["position"]).to_json()["control"]
    assert [(effect["low"], effect["high"]) for effect in few] == [(None, None)]  # one image: no interval
    with pytest.raises(InputError, match="cannot control for position: every pair"):
        rank_preferences(unbalanced[:1] * 30, control=["position"])


def _turned(one: Judgement) -> Judgement:
    return Judgement(one.image, one.second, one.first, 1 - one.outcome)


def test_a_model_against_itself_says_nothing() -> None:
    found = rank_preferences([*battles(), Judgement("0", "weak", "weak", 0.5)])
    assert found.left_out == 1
    np.testing.assert_allclose(found.scores, rank_preferences(battles()).scores)


def test_what_cannot_be_ranked() -> None:
    with pytest.raises(StateError, match="no judgements"):
        rank_preferences([])
    apart = [*battles(), *(Judgement(one.image, "u", "v", one.outcome) for one in battles())]
    with pytest.raises(StateError, match="connect u with strong"):
        rank_preferences(apart)
    with pytest.raises(InputError, match="choose from length, position"):
        rank_preferences(battles(), control=["style"])
    with pytest.raises(InputError, match="30 of 30 judgements have no lengths"):
        rank_preferences(battles(), control=["length"])


def test_a_file_is_enough(tmp_path: Path) -> None:
    rows = [f"{one.image},strong,weak,{'model_a' if one.outcome else 'model_b'}" for one in battles()]
    (tmp_path / "battles.csv").write_text("question_id,model_a,model_b,winner\n" + "\n".join(rows) + "\n")
    found = captrial.rank_preferences(tmp_path / "battles.csv")
    assert found.rows() == rank_preferences(battles()).rows()


def test_strengths_do_not_depend_on_the_order_of_judgements() -> None:
    judgements = World(models=4).judgements(40, np.random.default_rng(5))
    shuffled = [judgements[at] for at in np.random.default_rng(0).permutation(len(judgements))]
    np.testing.assert_allclose(rank_preferences(judgements).scores, rank_preferences(shuffled).scores, atol=1e-9)


@pytest.mark.parametrize(("models", "images"), [(2, 5), (2, 20), (5, 10)])
def test_intervals_cover(models: int, images: int) -> None:
    """A small part of `studies.preferences`; the bound allows for the noise of 150 draws."""
    found = coverage(World(models=models, judges=2, image_effect=1.0, nu=0.5), images, draws=150)
    assert found.pairs > 0.9
    assert found.scores > 0.9
    assert found.ranks > 0.93


def test_metrics_agree_with_people(small: Small) -> None:
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
    assert rank_preferences(judgements).rows()[0]["model"] == "model0"


def test_agreement_weighs_images_by_inverse_probability() -> None:
    scores = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    labelled = {0: 1.0, 1: 1.0, 2: 0.25}
    pairwise = PairwiseScores.of_scores("made", ["x", "y"], scores, {(0, 1): np.arange(3)}, labelled)
    judgements = [Judgement("0", "x", "y", 1.0), Judgement("1", "x", "y", 1.0), Judgement("2", "x", "y", 0.0)]
    found = metric_agreement(pairwise, judgements)
    assert found.tau == pytest.approx((1 + 1 - 4) / 6)
    assert found.judgements == 3
