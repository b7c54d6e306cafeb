"""Null models and skill: computed a second time, and intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.grounding.baselines import NULLS, LabelPrior, null_labels, skill
from captrial.grounding.score import Grounder
from captrial.grounding.study import ground_dataset, grounding_summary, skill_table
from captrial.records import Box, Region
from grounding.scripted_captioner import IMAGES, LABELS, SCRIPT

REGIONS = [Region(Box(0, 0, 100, 60), "car"), Region(Box(40, 40, 60, 60), "dog"), Region(Box(0, 80, 10, 90), "cat")]


def test_each_null_takes_the_region_it_says() -> None:
    prior = LabelPrior.of(["cat", "kitten", "dog"], Grounder(LABELS))
    found = null_labels(REGIONS, (100, 100), 3, prior)
    assert list(found) == list(NULLS)
    assert found["largest"] == [["car"] * 3]
    assert found["centre"] == [["dog"] * 3]
    assert found["prior"] == [["cat"] * 3]  # two of three nouns
    assert {label for row in found["random"] for label in row} == {"car", "dog", "cat"}
    assert found == null_labels(REGIONS, (100, 100), 3, prior)  # the same seed, the same draws


def test_skill_is_the_share_of_the_room_above_the_null() -> None:
    scores, null = np.array([0.8, 0.6, np.nan]), np.array([0.4, 0.2, 0.9])
    found = skill(scores, null, ["a", "b", "c"])
    assert found.value == pytest.approx((0.7 - 0.3) / (1 - 0.3))
    assert found.count == 2
    assert skill(null, null, ["a", "b", "c"]).value == 0
    assert skill(np.array([np.nan]), np.array([0.1]), ["a"]).value is None
    assert skill(np.array([1.0]), np.array([1.0]), ["a"]).value == 0  # a perfect null leaves no room


def test_the_interval_covers_the_true_skill() -> None:
    """Captions of one sequence are alike: intervals over sequences cover as they should, over captions they do not."""
    generator = np.random.default_rng(0)
    true, hits = (0.5 - 0.3) / (1 - 0.3), {"sequences": 0, "captions": 0}
    for trial in range(60):
        shared = generator.normal(0, 0.15, 40).repeat(5)
        scores, null = 0.5 + shared + generator.normal(0, 0.05, 200), 0.3 + generator.normal(0, 0.05, 200)
        for name, groups in (("sequences", np.arange(40).repeat(5)), ("captions", np.arange(200))):
            found = skill(scores, null, groups.tolist(), seed=trial)
            assert found.low is not None
            assert found.high is not None
            hits[name] += found.low <= true <= found.high
    assert hits["sequences"] >= 52  # 95% of 60 are 57
    assert hits["captions"] < hits["sequences"]


def test_a_result_has_its_nulls_and_their_skill() -> None:
    result = ground_dataset(SCRIPT, IMAGES, Grounder(LABELS, threshold=0.9))
    scores = result.scores(0)
    for name in NULLS:
        null = result.null_scores(name)
        assert np.isnan(null).tolist() == np.isnan(scores).tolist()
        there = ~np.isnan(scores)
        expected = (scores[there].mean() - null[there].mean()) / (1 - null[there].mean())
        assert result.skill(name).value == pytest.approx(expected)
    row = skill_table([result]).rows[0]
    assert row[4].value == pytest.approx(100 * np.nanmean(scores))  # type: ignore[union-attr]
    (entry,) = grounding_summary([result])
    assert [each["delta"] for each in entry["scores"]["all"]] == ["0", "1", "3", "5", "∞"]
    assert set(entry["scores"]["checkable"][0]["nulls"]) == set(NULLS)
    assert sum(entry["verdicts"].values()) == 4
