"""Grounding over a data set: what is looked at, what is counted, and how hallucinations are caught."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from captrial.attribution.dataset_attribution import Words, WordWeights
from captrial.errors import DatasetError, MismatchError
from captrial.grounding.regions import detect_regions, element_regions, labels_of
from captrial.grounding.score import Grounder, Verdict
from captrial.grounding.study import (
    ground_dataset,
    grounding_table,
    top_region_labels,
    verdict_table,
)
from captrial.grounding.verdicts import (
    VerdictAccuracy,
    classes_present,
    detection_table,
    verdict_accuracy,
)
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.detectors.base import Detection
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess

CELLS = grid_boxes(2, 2).double().numpy()
LABELS = ["dog", "cat", "car"]


class Scripted:
    """Says given captions and looks, at word w, at the cell given for it."""

    name, method, preprocess = "scripted", "attention", Preprocess()

    def __init__(self, captions: dict[str, str], cells: dict[str, list[int]]) -> None:
        self.captions, self.cells, self.asked = captions, cells, 0

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        self.asked += len(image_ids)
        return [self.captions[name] for name in image_ids]

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        return [[WordWeights(np.eye(4)[self.cells[name]].reshape(-1, 4), CELLS, (2, 2))] for name in image_ids]


def sample(name: str, *regions: tuple[str, tuple[int, int, int, int]]) -> Sample:
    return Sample(
        ImageRef(name, width=100, height=100), ("x",), "test", tuple(Region(Box(*b), label) for label, b in regions)
    )


DOG, CAT, CAR = ("dog", (0, 0, 50, 50)), ("cat", (50, 0, 100, 50)), ("car", (0, 50, 50, 100))
IMAGES = [sample("1", DOG, CAT, CAR), sample("2", DOG, CAT), sample("3"), sample("4", DOG)]
SCRIPT = Scripted(
    {"1": "a dog and a cat", "2": "a puppy near a car", "3": "a dog", "4": "running"},
    {"1": [0, 0, 1, 0, 2], "2": [1, 0, 0, 0, 0], "3": [0, 0], "4": [0]},
)


def test_scores_verdicts_and_what_is_left_out() -> None:
    result = ground_dataset(SCRIPT, IMAGES, Grounder(LABELS, threshold=0.9), "made up")
    first, second, third, fourth = (image.grounding for image in result.images)
    assert first.labels == ("dog", "dog", "cat", "dog", "car")
    assert [noun.verdict for noun in first.nouns] == [Verdict.GROUNDED, Verdict.EARLY]
    assert [noun.verdict for noun in second.nouns] == [Verdict.GROUNDED, Verdict.HALLUCINATED]
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
    assert shares[4:] == (4, "50.0% (2)", "25.0% (1)", "0.0% (0)", "25.0% (1)")


def test_hallucinations_are_caught_and_compared_with_chance() -> None:
    grounder = Grounder(LABELS, threshold=0.9)
    found = verdict_accuracy(ground_dataset(SCRIPT, IMAGES, grounder), classes_present(IMAGES), grounder.similarity)
    assert found == VerdictAccuracy(nouns=4, wrong=1, flagged=1, right=1)
    assert (found.f1, found.chance, found.always) == (1.0, 0.25, 0.4)
    assert set(VerdictAccuracy(0, 0, 0, 0).to_dict().values()) == {0}
    table = detection_table([ground_dataset(SCRIPT, IMAGES, grounder)], IMAGES, grounder.similarity)
    assert table.rows[0][3:] == (4, 1, 1, 1.0, 1.0, 1.0, 0.25, 0.4)


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


def test_a_study_goes_on_where_it_was(tmp_path: Path) -> None:
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
    assert top_region_labels(look, wide, Preprocess(224, "crop", 256)) == ["cat", "car", "car"]
    assert top_region_labels(look, Sample(wide.image), Preprocess()) == []


class BlackBoxes:
    """A detector that finds whatever is black."""

    name, labels, width = "black boxes", ("dog", "cat"), None

    def __init__(self, wanted: str = "dog") -> None:
        self.wanted, self.seen = wanted, 0

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        self.seen += len(images)
        return [
            [Detection(Box(1.0, 2.0, 30.0, 20.0), self.wanted, 0.5)] if image.getpixel((0, 0)) == (0, 0, 0) else []
            for image in images
        ]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "wanted": self.wanted}


def test_detected_regions_are_kept(tmp_path: Path) -> None:
    for name, colour in (("black", "black"), ("white", "white")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / f"{name}.png")
    samples = [Sample(ImageRef(name, tmp_path / f"{name}.png")) for name in ("black", "white")]
    detector = BlackBoxes()
    found = detect_regions(samples, detector, tmp_path / "regions.json")
    assert [[region.label for region in sample.regions] for sample in found] == [["dog"], []]
    assert detect_regions(samples, detector, tmp_path / "regions.json") == found
    assert detector.seen == 2
    with pytest.raises(MismatchError, match="another detector"):
        detect_regions(samples, BlackBoxes("cat"), tmp_path / "regions.json")
    with pytest.raises(DatasetError, match="image x has no file"):
        detect_regions([Sample(ImageRef("x"))], detector)
    assert labels_of(found) == ["dog"]
    with pytest.raises(DatasetError, match="no image has a region with a label"):
        labels_of(found[1:])


def test_elements_that_are_regions_bring_their_labels() -> None:
    class Store:
        def entry(self, image_id: str) -> dict[str, Any]:
            return {"labels": [None, "dog"]} if image_id == "1" else {}

        def get(self, image_ids: Sequence[str]) -> Features:
            boxes = torch.tensor([[[0.0, 0, 1, 1], [0.5, 0.5, 1, 1]]])
            return Features(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool), boxes)

    found, labels = element_regions([IMAGES[0]], Store())
    assert labels == ["dog"]
    assert found[0].regions == (Region(Box(50.0, 50.0, 100.0, 100.0), "dog"),)
    with pytest.raises(DatasetError, match="have no labels"):
        element_regions([IMAGES[1]], Store())
