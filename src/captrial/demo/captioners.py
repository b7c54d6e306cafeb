"""The images of the demonstration, and the captioners that learn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.trained import caption_by_id
from captrial.data import write_captions
from captrial.demo.plan import Plan, Trainee
from captrial.records import Sample
from captrial.toyworld import ToyWorldSettings, draw_sheet, read_toyworld, write_toyworld
from captrial.training.feature_extraction import features_of
from captrial.training.run import TrainingData, train
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.registry import load_backbone


def paint(plan: Plan, folder: Path) -> None:
    """Render the toy world, and a sheet of some of its images."""
    draw_sheet(folder.parent / "toyworld.png", ToyWorldSettings(24, plan.seed, shares={"train": 12, "wild": 12}))
    shares = {split: float(count) for split, count in plan.images.items()}
    write_toyworld(folder, ToyWorldSettings(sum(plan.images.values()), plan.seed, plan.size, shares))


def read(plan: Plan, folder: Path) -> dict[str, list[Sample]]:
    """The samples of every split."""
    return {split: read_toyworld(folder, split=split) for split in plan.images}


def look(plan: Plan, samples: Mapping[str, Sequence[Sample]], folder: Path) -> FeatureStore:
    """Features of all images."""
    everything = [sample for part in samples.values() for sample in part]
    return features_of(everything, load_backbone(f"{plan.backbone}?size={plan.size}"), folder)


def teach(
    plan: Plan, trainee: Trainee, samples: Mapping[str, Sequence[Sample]], features: FeatureStore, run: Path
) -> None:
    """Train one captioner by cross-entropy."""
    options = {**plan.recipe, **trainee.options, "seed": str(plan.seed)}
    notes = {"data": "the toy world"}
    train(
        trainee.preset, TrainingData(samples["train"], samples["val"], features, features.vision, notes), run, options
    )


def speak(
    plan: Plan, run: Path, samples: Sequence[Sample], features: FeatureStore, images: Path, captions: Path
) -> None:
    """Caption the wild images."""
    best = Checkpoint.from_pretrained(run / "best")
    ids = [sample.id for sample in samples]
    said = caption_by_id(best.captioner, best.vocabulary, features, ids, beam=plan.beam)
    write_captions(captions, {file_id(sample, images): text for sample, text in zip(samples, said, strict=True)})


def file_id(sample: Sample, images: Path) -> str:
    """The image's file name, by which a competition finds it."""
    assert sample.image.path is not None
    return sample.image.path.relative_to(images).as_posix()
