"""Grounding and attention correctness of the demonstration's captioners as tables, and explained captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.explain import explain, explain_features
from captrial.attribution.page import ExplanationView, panel
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.loading import load_captioner
from captrial.data.images import open_image
from captrial.demo.demo_plan import IMPLICIT, SUPERVISED, DemoPlan
from captrial.demo.photograph_trial import find_photographs
from captrial.files import atomic_write
from captrial.grounding.attention_correctness import FORCED
from captrial.grounding.attention_correctness import measure_attention as measure_correctness
from captrial.grounding.attention_tables import correctness_table
from captrial.grounding.figures import AttentionStudy, draw_side_by_side
from captrial.grounding.ground import ground_explanation
from captrial.grounding.regions import image_regions, labels_of
from captrial.grounding.score import Grounder
from captrial.grounding.study import ground_dataset, grounding_table, skill_table, verdict_table
from captrial.grounding.tables import write_tables
from captrial.records import Sample
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.registry import DEFAULT_DETECTOR, load_detector

METHODS = ("saliency", "attention")
EXAMPLES = 3  # phrases drawn side by side


def measure_grounding(
    plan: DemoPlan, runs: Mapping[str, Path], samples: Sequence[Sample], features: FeatureStore, folder: Path
) -> None:
    """GroundingScore of every captioner, also against null models, and verdicts, as tables."""
    grounder = Grounder(labels_of(samples))
    results = []
    for name, run in runs.items():
        checkpoint = Checkpoint.from_pretrained(run / "best")
        for method in METHODS:
            attributor = DatasetAttributor(name, checkpoint, features, method, plan.beam)
            results.append(ground_dataset(attributor, samples, grounder, plan.backbone))
    tables = [grounding_table(results, checkable=True), skill_table(results, checkable=True), verdict_table(results)]
    write_tables(tables, folder)


def measure_attention(
    plan: DemoPlan, runs: Mapping[str, Path], samples: Sequence[Sample], features: FeatureStore, folder: Path
) -> None:
    """Attention correctness, implicit against supervised; the phrases that gained most, side by side."""
    attributors, results = [], []
    for name in (IMPLICIT, SUPERVISED):
        checkpoint = Checkpoint.from_pretrained(runs[name] / "best")
        attributors.append(DatasetAttributor(name, checkpoint, features, "attention", plan.beam))
        results.append(measure_correctness(attributors[-1], samples))
    study = AttentionStudy(attributors, results, samples)
    draw_side_by_side(study, FORCED, folder / "examples.png", EXAMPLES)
    write_tables([correctness_table(results)], folder)


def explain_toyworld(
    plan: DemoPlan, runs: Mapping[str, Path], samples: Sequence[Sample], features: FeatureStore, path: Path
) -> None:
    """Explained captions of some toy world images by two captioners, for `panel.js`."""
    grounder = Grounder(labels_of(samples))
    panels = []
    for sample in samples[: plan.explained]:
        assert sample.image.path is not None
        image = open_image(sample.image.path)
        for name, method in ((SUPERVISED, "attention"), ("transformer", "integrated_gradients")):
            checkpoint = Checkpoint.from_pretrained(runs[name] / "best")
            found = explain_features(checkpoint, features.get([sample.id]), method, beam=plan.beam)
            found = replace(found, captioner=name, image=image)
            panels.append(panel(ground_explanation(found, sample.regions, grounder).view()))
    atomic_write(path, orjson.dumps(panels))


def explain_photographs(plan: DemoPlan, path: Path) -> None:
    """Explained captions of some photographs by shipped captioners."""
    images = [file for name, file in find_photographs().items() if name in plan.photographs]
    panels = [panel(view) for image in images for view in _views(image, plan.explained_by)]
    atomic_write(path, orjson.dumps(panels))


def _views(image: Path, captioners: Sequence[str]) -> list[ExplanationView]:
    detector, opened = load_detector(DEFAULT_DETECTOR), open_image(image)
    found = image_regions(detector, opened)
    grounder = Grounder(found.labels)
    return [ground_explanation(explain(load_captioner(name), opened), found, grounder).view() for name in captioners]
