"""The ranking with its intervals, ties, notes and JSON."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from captrial.compete.ranking.estimates import PoolSample
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ratios
from captrial.compete.ranking.result import rank_changes, rank_models, rank_pool
from compete import synthetic


def labelled_part(whole: PairwiseScores, rows: np.ndarray, probability: float) -> PairwiseScores:
    """As if only these images had been labelled, each with the same probability; every pair holds all images."""
    part = synthetic.restrict(whole, [rows] * len(whole.pairs))
    return replace(part, probability=np.full(len(whole.images), probability))


def test_the_score_is_eq_7_and_lies_inside_its_interval() -> None:
    found = synthetic.pairwise_scores(models=4, images=60, share=0.7, seed=5)
    result = rank_models(found)
    np.testing.assert_allclose(result.scores, ranking_vector(ratios(found.matrix())), rtol=1e-12)
    for row in result.rows():
        assert row["low"] < row["score"] < row["high"]
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]
    assert sum(row["first"] for row in result.rows()) == pytest.approx(1)
    beats = result.uncertainty.beats
    np.testing.assert_allclose(beats + beats.T, np.where(np.eye(4, dtype=bool), np.nan, 1.0))


def test_intervals_shrink_with_images() -> None:
    results = [rank_models(synthetic.pairwise_scores(images=n, share=1.0, seed=1)) for n in (20, 500)]
    width = [float((result.uncertainty.high - result.uncertainty.low).mean()) for result in results]
    assert width[1] < 0.4 * width[0]


@pytest.mark.slow
@pytest.mark.parametrize("labels", [10, 40])
def test_intervals_hold_what_they_promise(labels: int) -> None:
    """Draw labels from D of 70 images: 95% intervals must cover the ranking from all of them about that often."""
    truth = synthetic.pairwise_scores(models=3, images=70, share=1.0, seed=0)
    final = ranking_vector(ratios(truth.matrix()))
    places = np.argsort(np.argsort(-final)) + 1
    generator, covered, ranked, ratio = np.random.default_rng(1), [], [], []
    for _ in range(250):
        rows = np.sort(generator.choice(70, labels, replace=False))
        found = rank_models(labelled_part(truth, rows, labels / 70))
        assert found.population == "labelled set"
        bounds = found.uncertainty
        given = bounds.given  # not where one image carries all of the spread
        covered += ((bounds.low <= final) & (final <= bounds.high))[given].tolist()
        ranked.append((bounds.rank_low <= places) & (places <= bounds.rank_high))
        f = ratios(truth.matrix())[np.triu_indices(3, 1)]
        low, high = found.f_low[np.triu_indices(3, 1)], found.f_high[np.triu_indices(3, 1)]
        ratio += ((low <= f) & (f <= high))[~np.isnan(low)].tolist()
    assert len(covered) > 300
    assert 0.91 <= np.mean(covered) <= 0.99
    assert 0.91 <= np.mean(ratio) <= 0.99
    assert np.mean(ranked) >= 0.93


def test_two_models_with_the_same_captions_are_a_tie() -> None:
    made = synthetic.pairwise_scores(models=2, images=30, share=1.0)
    pair = made.pairs[0]
    same = replace(pair, statistics=pair.statistics[:, [0, 0]], per_image=pair.per_image[:, [0, 0]])
    rows = rank_models(replace(made, pairs=(same,))).rows()
    assert [row["rank"] for row in rows] == [row["bradley_terry_rank"] for row in rows] == [1.5, 1.5]
    assert [(row["rank_low"], row["rank_high"]) for row in rows] == [(1, 2), (1, 2)]
    assert [row["first"] for row in rows] == [0.5, 0.5]


@pytest.mark.parametrize("labels", [1, 2, 5])
def test_few_labels_have_no_interval_and_no_certain_winner(labels: int) -> None:
    whole = synthetic.pairwise_scores(models=2, images=30, share=1.0)
    found = rank_models(labelled_part(whole, np.arange(labels), labels / 30))
    for row in found.rows():
        assert row["score"] is not None
        assert row["low"] is row["high"] is row["rank_low"] is row["first"] is None
    counted = f"{labels} labelled image{'' if labels == 1 else 's'}"
    said = f"no intervals: a pair has {counted} on average; it takes about 10 of each pair"
    assert said in found.notes


def test_a_score_from_one_image_is_named_with_the_labels_it_would_take() -> None:
    scores = np.random.default_rng(0).uniform(0.5, 1.0, (20, 3))
    scores[1:, 1] = 0.0  # one image is all of the second model's score
    every = {pair: np.arange(20) for pair in ((0, 1), (0, 2), (1, 2))}
    on_d = rank_models(PairwiseScores.of_scores("cider", ["a", "b", "c"], scores, every))
    assert all(row["low"] is None for row in on_d.rows())
    said = "b's score comes from about 1 of 20 labelled images; it takes 50 labelled images or more"
    assert any(said in note for note in on_d.notes)
    half = np.full(20, 0.5)
    sample = PoolSample(half, np.ones(20), np.full((20, 3), 0.5), 1.0, np.full(3, 0.5), 40)
    assert rank_pool("cider", ["a", "b", "c"], scores, sample).notes == (f"no interval for b: {said}",)
    few = PoolSample(half[:4], np.ones(4), np.full((4, 3), 0.5), 1.0, np.full(3, 0.5), 40)
    note = rank_pool("cider", ["a", "b", "c"], scores[:4], few).notes[0]
    assert note == "no intervals: 4 labels count like 4 random ones; it takes about 10 labels"


def test_ranking_says_what_is_missing_and_what_was_added() -> None:
    partly = synthetic.pairwise_scores(models=3, images=12, seed=1)
    partly = synthetic.restrict(partly, [np.arange(6), np.arange(2), np.arange(0)])
    found = rank_models(partly)
    assert any("2 of 3 pairs are not fully labelled, 1 of them not at all" in note for note in found.notes)
    smoothed = rank_models(synthetic.pairwise_scores(models=2, zeros=True))
    assert any("was added to every p" in note for note in smoothed.notes)
    assert smoothed.rows()[0]["model"] == "m0"


def test_a_model_without_labels_of_its_own_has_no_number() -> None:
    made = synthetic.pairwise_scores(models=3, images=30, seed=1)
    part = synthetic.restrict(made, [np.arange(10), np.arange(0), np.arange(0)])  # pairs (0, 1), (0, 2), (1, 2)
    found = rank_models(part)
    last = found.rows()[-1]
    assert (last["model"], last["score"], last["rank"], last["low"]) == ("m2", None, None, None)
    assert any("m2 has no number yet: its own images need labels" in note for note in found.notes)
    before = rank_models(replace(made, models=("m0", "m1"), pairs=(replace(part.pairs[0], wanted=10),)))
    complete = replace(part, pairs=(replace(part.pairs[0], wanted=10), *part.pairs[1:]))
    assert rank_models(complete).rows()[0]["low"] == before.rows()[0]["low"]  # the others' intervals are as they were
    alone = rank_models(synthetic.restrict(synthetic.pairwise_scores(models=3, images=30, seed=1), [np.arange(10)] * 3))
    assert alone.rows()[-1]["score"] is not None


def test_ranking_as_json() -> None:
    found = rank_models(synthetic.pairwise_scores(models=3, images=30, share=1.0)).to_json()
    assert found["p"][0][0] is None
    assert found["f"][0][0] == 1
    assert [row["rank"] for row in found["ranking"]] == [1, 2, 3]
    assert sum(row["score"] for row in found["ranking"]) == pytest.approx(1)
    keys = {"model", "score", "low", "high", "rank", "rank_low", "rank_high", "first"}
    assert keys <= found["ranking"][0].keys()


def test_rank_change_is_old_minus_new() -> None:
    found = rank_models(synthetic.pairwise_scores(models=3, images=200, share=1.0, seed=1))
    assert [row["model"] for row in found.rows()] == ["m0", "m1", "m2"]
    old = {"m0": {"made": 1.0}, "m1": {"made": 3.0}, "m2": {"made": 2.0}, "other": {"made": 9.0}}
    assert rank_changes(found, old) == {
        "m0": (3, 1, 2),
        "m1": (1, 2, -1),
        "m2": (2, 3, -1),
    }
    assert rank_changes(found, {name: {"made": 1.0} for name in ("m0", "m1")}) == {
        "m0": (1.5, 1, 0.5),
        "m1": (1.5, 2, -0.5),
    }


@pytest.mark.parametrize(("labels", "sure"), [(30, True), (3, False)])
def test_models_with_the_same_captions_share_the_first_place(labels: int, sure: bool) -> None:
    """The sentence below the ranking names none of them as the first."""
    scores = np.random.default_rng(0).uniform(0.5, 1, labels)
    values = np.stack([scores, scores, scores - 0.4], axis=1)
    sample = PoolSample(np.full(labels, 0.1), np.ones(labels), np.full((labels, 3), 0.5), 1.0, np.full(3, 0.5), 1000)
    found = rank_pool("cider", ["x", "y", "z"], values, sample)
    assert found.conclusion().startswith("x and y share the first place among 3 captioners by CIDEr, on the whole pool")
    assert ("too few labels" in found.conclusion()) != sure
    assert [row["rank"] for row in found.rows()] == [1.5, 1.5, 3]


def test_tables_show_the_metric_on_its_usual_scale() -> None:
    sample = PoolSample(np.full(20, 0.1), np.ones(20), np.full((20, 2), 0.5), 1.0, np.full(2, 0.5), 1000)
    found = rank_pool("cider", ["x", "y"], np.random.default_rng(0).uniform(0, 1, (20, 2)), sample)
    for raw, row in zip(found.rows(), found.table_rows(), strict=True):
        assert [row[key] for key in ("score", "low", "high", "mean")] == pytest.approx(
            [100 * raw[key] for key in ("score", "low", "high", "mean")]
        )
        assert {key: row[key] for key in ("rank", "first")} == {key: raw[key] for key in ("rank", "first")}
