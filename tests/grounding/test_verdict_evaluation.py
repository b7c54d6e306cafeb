"""Verdicts against the truth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from captrial.grounding.score import Grounder
from captrial.grounding.study import ground_dataset
from captrial.grounding.verdict_evaluation import (
    VerdictAccuracy,
    classes_present,
    detection_table,
    f1_lead,
    verdict_accuracy,
)
from grounding.scripted_captioner import IMAGES, LABELS, SCRIPT


def test_hallucinations_are_counted_and_compared_with_chance() -> None:
    grounder = Grounder(LABELS, threshold=0.9)
    found = verdict_accuracy(ground_dataset(SCRIPT, IMAGES, grounder), classes_present(IMAGES), grounder.similarity)
    assert found == VerdictAccuracy(nouns=4, wrong=1, flagged=1, right=1)
    assert (found.f1, found.chance, found.always) == (1.0, 0.25, 0.4)
    assert set(VerdictAccuracy(0, 0, 0, 0).to_dict().values()) == {0}
    table = detection_table([ground_dataset(SCRIPT, IMAGES, grounder)], IMAGES, grounder.similarity)
    assert table.rows[0][3:] == ("not in the image", 4, 1, 1, 1.0, 1.0, 1.0, 0.25, 0.4)
    assert table.rows[1][3:] == ("not grounded", 4, 1, 1, 1.0, 1.0, 1.0, 0.25, 0.4)
    assert [row[2] for row in table.rows[2:]] == ["null: random", "null: largest", "null: centre", "null: prior"]


def test_the_lead_over_a_null_model_is_paired_by_image() -> None:
    grounder = Grounder(LABELS, threshold=0.9)
    result, truth = ground_dataset(SCRIPT, IMAGES, grounder), classes_present(IMAGES)
    same = f1_lead(result, result, truth, grounder.similarity)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    for null in result.null_results.values():
        found = f1_lead(result, null, truth, grounder.similarity)
        assert found.value == pytest.approx(1.0 - verdict_accuracy(null, truth, grounder.similarity).f1)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
    one = replace(result, images=result.images[:1])
    assert f1_lead(one, one, truth, grounder.similarity).low is None
