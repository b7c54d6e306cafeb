"""The captioners and images of a study; captions are computed once and kept in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import ARCHITECTURES, architecture_of
from captrial.files import atomic_write, content_hash
from captrial.grounding.study_data import load_models
from captrial.progress import track
from captrial.records import Sample
from captrial.vision.features.visual_features import FeatureSource

REGIONS = "regions"
BATCH = 16  # images at once


@dataclass(frozen=True, eq=False)
class StudyCaptioner:
    """A captioner with its name and the features of all images."""

    name: str
    checkpoint: Checkpoint
    store: FeatureSource
    mark: str  # hash of its weights

    @property
    def model(self) -> str:
        """The architecture, as the papers' tables call it."""
        return ARCHITECTURES[architecture_of(self.checkpoint.captioner)].title

    @property
    def features(self) -> str:
        """`regions`, or the backbone whose cells or patches it uses."""
        vision = self.checkpoint.vision
        return REGIONS if vision.get("regions") or vision.get("detector") else str(vision.get("backbone", "features"))


@dataclass(frozen=True)
class StudySplit:
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
        """Reference captions; empty where an image has none."""
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


def load_study_captioners(
    models: str, samples: Sequence[Sample], stores: Sequence[str], out: Path
) -> list[StudyCaptioner]:
    """The captioners of `--models`, with features of the first store that fits, else extracted below `out`."""
    return [
        StudyCaptioner(
            model.name,
            model.checkpoint,
            model.features_among(samples, stores, out),
            content_hash((model.path / "model.safetensors").read_bytes()),
        )
        for model in load_models(models)
    ]


def work_folder(folder: Path, settings: Mapping[str, Any], but: Sequence[str]) -> Path:
    """The folder of measurements that depend on these settings, without those named in `but`.

    Its files name captioner and weights, so that one more captioner or experiment costs only its own measurements.
    """
    decisive = {name: value for name, value in settings.items() if name not in but}
    return folder / "work" / content_hash(orjson.dumps(decisive, option=orjson.OPT_SORT_KEYS))


def captions_of(captioner: StudyCaptioner, split: StudySplit, beam: int, keep: Path) -> dict[str, str]:
    """A captioner's captions of all images, by beam search; those in `keep` (JSON) are read, new ones added to it."""
    captions: dict[str, str] = orjson.loads(keep.read_bytes()) if keep.is_file() else {}
    todo = [image for image in split.ids if image not in captions]
    attributor = DatasetAttributor(captioner.name, captioner.checkpoint, captioner.store, beam=beam)
    for start in track(range(0, len(todo), BATCH), f"{captioner.name}, captioning {split.name}"):
        part = todo[start : start + BATCH]
        captions.update(zip(part, attributor.caption(part), strict=True))
        atomic_write(keep, orjson.dumps(captions))
    return {image: captions[image] for image in split.ids}


def score_columns(
    captions: Mapping[str, str], references: Mapping[str, Sequence[str]], **options: Any
) -> dict[str, float]:
    """All default metrics of one captioner; METEOR under one name."""
    from captrial.metrics import score

    found = next(iter(score(captions, dict(references), **options).to_dict().values()))
    values = {name: value for name, value in found.items() if value is not None}
    return {**values, "meteor": values.get("meteor", values.get("meteor_exact_stem", float("nan")))}
