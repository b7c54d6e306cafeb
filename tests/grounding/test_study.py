"""Grounding over a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from captrial.attribution.attribution import on_image, top_labels
from captrial.attribution.dataset_attribution import WordWeights
from captrial.attribution.subject import seen_window
from captrial.data.sample_sizes import size_of
from captrial.errors import DatasetError, MismatchError
from captrial.grounding.score import Grounder, Verdict
from captrial.grounding.study import ground_dataset, grounding_table, verdict_table
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.preprocess import Preprocess
from grounding.scripted_captioner import CELLS, IMAGES, LABELS, SCRIPT


def test_scores_verdicts_and_what_is_left_out() -> None:
    result = ground_dataset(SCRIPT, IMAGES, Grounder(LABELS, threshold=0.9), "made up")
    first, second, third, fourth = (image.grounding for image in result.images)
    assert first.labels == ("dog", "dog", "cat", "dog", "car")
    assert [noun.verdict for noun in first.nouns] == [Verdict.GROUNDED, Verdict.EARLY]
    assert [noun.verdict for noun in second.nouns] == [Verdict.GROUNDED, Verdict.NOT_IN_IMAGE]
    assert third.problem == "the image has no region with a label"
    assert fourth.problem == "the caption has no noun"
    assert np.isnan(result.scores(0)).tolist() == [False, False, True, True]
    table = grounding_table([result])
    assert table.sections == {0: "made up"}
    cells = table.rows[0][1:]
    assert cells[-1].value == pytest.approx(np.nanmean(result.scores(np.inf)))  # type: ignore[union-attr]
    assert cells[0].count == 2  # type: ignore[union-attr]
    assert any("1 of 4 captions have no score: the caption has no noun" in note for note in table.notes)
    shares = verdict_table([result]).rows[0]
    assert shares[4:] == (4, "50.0% (2)", "25.0% (1)", "0.0% (0)", "25.0% (1)", "0.0% (0)")


def test_tables_of_models_features_and_methods() -> None:
    grounder = Grounder(LABELS, threshold=0.9)
    results = []
    for features, model, method in (("grid", "a", "attention"), ("grid", "a", "saliency"), ("ViT", "a", "saliency")):
        found = ground_dataset(SCRIPT, IMAGES, grounder, features)
        found.model, found.method = model, method
        results.append(found)
    table = grounding_table(results)
    assert table.groups == (("", 1), ("Attention", 5), ("Saliency", 5))
    assert table.sections == {0: "grid", 1: "ViT"}
    assert table.rows[1][1:6] == (None,) * 5
    assert r"\multicolumn{5}{c}{Saliency}" in table.to_latex()


def test_a_stopped_study_continues(tmp_path: Path) -> None:
    grounder, kept = Grounder(LABELS, threshold=0.9), tmp_path / "kept.jsonl"
    whole = ground_dataset(SCRIPT, IMAGES, grounder)
    ground_dataset(SCRIPT, IMAGES[:2], grounder, keep=kept)
    before = SCRIPT.asked
    again = ground_dataset(SCRIPT, IMAGES, grounder, keep=kept)
    assert SCRIPT.asked == before + 2
    assert again.images == whole.images
    with pytest.raises(MismatchError, match="other settings"):
        ground_dataset(SCRIPT, IMAGES, Grounder(LABELS, threshold=0.8), keep=kept)
    with pytest.raises(DatasetError, match="no images"):
        ground_dataset(SCRIPT, [], grounder)


def test_boxes_of_cropped_images_move_along() -> None:
    """A 200 x 100 image cropped to its middle: the dog at its left edge is not seen, the car's left half is."""
    wide = Sample(
        ImageRef("w", width=200, height=100),
        regions=(
            Region(Box(0, 0, 30, 100), "dog"),
            Region(Box(50, 0, 100, 100), "car"),
            Region(Box(100, 0, 150, 100), "cat"),
        ),
    )
    look = WordWeights(np.array([[0.0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 0, 0]]), CELLS, (2, 2))
    elements = on_image(look.boxes, seen_window(Preprocess(224, "crop", 256), *size_of(wide)))
    assert top_labels(look.weights, elements, wide.regions, size_of(wide), "mean") == ["cat", "car", "car"]
    assert top_labels(look.weights, elements, [], size_of(wide)) == []
