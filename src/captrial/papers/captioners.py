"""The captioners of a study, and what they said about its images: asked once, remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from captrial.attribution.dataset_attribution import (
    DatasetAttributor,
)
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import ARCHITECTURES, architecture_of
from captrial.files import atomic_write, content_hash
from captrial.progress import track
from captrial.records import Sample
from captrial.vision.features.visual_features import FeatureSource

REGIONS = "regions"
BATCH = 16  # images at once


@dataclass(frozen=True, eq=False)
class Subject:
    """A captioner under its name, with features of all images."""

    name: str
    checkpoint: Checkpoint
    store: FeatureSource
    mark: str  # of its weights

    @property
    def model(self) -> str:
        """The architecture, as the papers' tables call it."""
        return ARCHITECTURES[architecture_of(self.checkpoint.captioner)].title

    @property
    def features(self) -> str:
        """`regions`, or the backbone whose cells or patches it looks at."""
        vision = self.checkpoint.vision
        return REGIONS if vision.get("regions") or vision.get("detector") else str(vision.get("backbone", "features"))


@dataclass(frozen=True)
class Split:
    """Some images, and all labels that their regions can have."""

    name: str
    samples: Sequence[Sample]
    labels: Sequence[str] = ()

    @property
    def ids(self) -> list[str]:
        """Ids of the images."""
        return [sample.id for sample in self.samples]

    @property
    def references(self) -> dict[str, list[str]]:
        """What people said; empty where an image has no caption."""
        if not all(sample.captions for sample in self.samples):
            return {}
        return {sample.id: list(sample.captions) for sample in self.samples}

    @property
    def mark(self) -> str:
        """A fingerprint of which images, references and regions these are."""
        parts = [
            [sample.id, list(sample.captions), [[*map(float, region.box), region.label] for region in sample.regions]]
            for sample in self.samples
        ]
        return content_hash(orjson.dumps([parts, list(self.labels)]))


def work_folder(folder: Path, settings: Mapping[str, Any], but: Sequence[str]) -> Path:
    """Where measurements are kept that depend on these settings `but` some; files there name captioner and weights.

    So one more captioner, or another exhibit, costs its own measurements only.
    """
    decisive = {name: value for name, value in settings.items() if name not in but}
    return folder / "work" / content_hash(orjson.dumps(decisive, option=orjson.OPT_SORT_KEYS))


def captions_of(subject: Subject, split: Split, beam: int, keep: Path) -> dict[str, str]:
    """What a captioner says of every image, by beam search; read from `keep` (JSON) where it was asked before."""
    said: dict[str, str] = orjson.loads(keep.read_bytes()) if keep.is_file() else {}
    todo = [image for image in split.ids if image not in said]
    attributor = DatasetAttributor(subject.name, subject.checkpoint, subject.store, beam=beam)
    for start in track(range(0, len(todo), BATCH), f"{subject.name}, captioning {split.name}"):
        part = todo[start : start + BATCH]
        said.update(zip(part, attributor.caption(part), strict=True))
        atomic_write(keep, orjson.dumps(said))
    return {image: said[image] for image in split.ids}


def score_columns(
    captions: Mapping[str, str], references: Mapping[str, Sequence[str]], **options: Any
) -> dict[str, float]:
    """All usual metrics of one captioner that can be had here; METEOR under one name."""
    from captrial.metrics import score

    found = next(iter(score(captions, dict(references), **options).to_dict().values()))
    values = {name: value for name, value in found.items() if value is not None}
    return {**values, "meteor": values.get("meteor", values.get("meteor_exact_stem", float("nan")))}
