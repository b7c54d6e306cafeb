"""The captioners and images of a study; captions are computed once and kept in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.attribution.attribution import grid_of
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import ARCHITECTURES, architecture_of
from captrial.errors import damage_named
from captrial.files import atomic_write, content_hash
from captrial.grounding.study_data import load_models
from captrial.progress import track
from captrial.records import Sample
from captrial.vision.descriptions import PRECOMPUTED
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
        name = str(vision.get("backbone", "features"))
        if vision.get("regions") or vision.get("detector"):
            return REGIONS
        return REGIONS if name.startswith(PRECOMPUTED) and holds_regions(self.store) else name


def holds_regions(store: FeatureSource) -> bool:
    """Whether the elements of a store are regions of their own in every image, such as bottom-up features: no grid."""
    first = next(iter(store), None) if isinstance(store, Iterable) else None
    boxes = None if first is None else store.get([first]).boxes
    return boxes is not None and grid_of(boxes[0].numpy()) is None


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
    captions = read_kept_captions(keep)
    todo = [image for image in split.ids if image not in captions]
    attributor = DatasetAttributor(captioner.name, captioner.checkpoint, captioner.store, beam=beam)
    for start in track(range(0, len(todo), BATCH), f"{captioner.name}, captioning {split.name}"):
        part = todo[start : start + BATCH]
        captions.update(zip(part, attributor.caption(part), strict=True))
        atomic_write(keep, orjson.dumps(captions))
    return {image: captions[image] for image in split.ids}


def read_kept_captions(path: Path) -> dict[str, str]:
    """The captions in a file of `captions_of`, by image; none where there is no file."""
    if not path.is_file():
        return {}
    with damage_named(path, "the same command after removing it", "is not a list of captions"):
        captions: dict[str, str] = orjson.loads(path.read_bytes())
        if not all(isinstance(caption, str) for caption in captions.values()):
            raise ValueError("something in it is not text")
        return captions


def score_columns(
    captions: Mapping[str, str], references: Mapping[str, Sequence[str]], **options: Any
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """All default metrics of one captioner, METEOR under one name; and those of every image, in references' order."""
    from captrial.metrics import score

    table = score(captions, dict(references), **options)
    found = next(iter(table.to_dict().values()))
    values = {name: value for name, value in found.items() if value is not None}
    values["meteor"] = values.get("meteor", values.get("meteor_exact_stem", float("nan")))
    order = {image: number for number, image in enumerate(table.ids)}
    places = [order[image] for image in references]
    each = {
        name: np.asarray(scores.per_image, np.float64)[places]
        for name, scores in next(iter(table.scores.values())).items()
    }
    return values, each
