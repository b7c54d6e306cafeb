"""GroundingScore of captions by workers: each loads the captioner, attributes and grounds its share of the images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import orjson
import pyarrow as pa

from captrial.data.images import size_of
from captrial.engines.engine import Engine, run
from captrial.engines.inputs import entry_parts
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import OutputFolder
from captrial.errors import DatasetError
from captrial.files import stamps
from captrial.grounding.score import Grounder
from captrial.grounding.study import BATCH, GroundedImage, GroundingResult, ground_batch
from captrial.language.similarity import SimilaritySettings
from captrial.records import Box, ImageRef, Region, Sample

PART = 128  # images a part: attributions take a second each on a processor


@dataclass(frozen=True)
class GroundJobSettings:
    """What workers load: a captioner, its features, an attribution method, and how nouns are compared with regions."""

    checkpoint: str
    features: str  # feature store
    method: str
    beam: int = 5
    labels: tuple[str, ...] = ()  # of regions
    similarity: SimilaritySettings = field(default_factory=SimilaritySettings)
    threshold: float | None = None  # tau_g; None for the calibrated one

    def grounder(self) -> Grounder:
        """Compares nouns with the labels."""
        return Grounder(self.labels, self.similarity.load(), self.threshold)


class GroundJob(Job):
    """Captions images and grounds every noun; a row is an image with its size and labelled boxes."""

    schema: ClassVar[pa.Schema] = pa.schema([("grounded", pa.string())])  # JSON, see `GroundedImage.to_dict`

    def __init__(self, settings: GroundJobSettings) -> None:
        from captrial.attribution.dataset_attribution import DatasetAttributor
        from captrial.captioners.checkpoint import Checkpoint
        from captrial.vision.features.feature_store import FeatureStore

        loaded = Checkpoint.from_pretrained(settings.checkpoint)
        store = FeatureStore(settings.features, loaded.vision)
        self.attributor = DatasetAttributor("", loaded, store, settings.method, settings.beam)
        self.grounder = settings.grounder()

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The grounding of every image, as a line of a study."""
        found = ground_batch(self.attributor, [read_sample(row["id"], row["item"]) for row in rows], self.grounder)
        return [{"grounded": orjson.dumps(image.to_dict()).decode()} for image in found]


def write_sample(sample: Sample) -> str:
    """An image's size and labelled boxes as JSON."""
    boxes = [[*region.box, region.label, region.score] for region in sample.regions]
    return orjson.dumps({"size": size_of(sample), "regions": boxes}).decode()


def read_sample(name: str, line: str) -> Sample:
    """Read what `write_sample` wrote."""
    record = orjson.loads(line)
    regions = tuple(Region(Box(*box), label, score) for *box, label, score in record["regions"])
    return Sample(ImageRef(name, None, *record["size"]), regions=regions)


def ground_all(
    name: str, features: str, samples: Sequence[Sample], settings: GroundJobSettings, out: Path, engine: Engine
) -> GroundingResult:
    """`captrial.grounding.study.ground_dataset` on an engine, for the captioner `name` and its kind of `features`.

    An image that cannot be done is in `failed` and in a note of the tables; it does not end the run.
    """
    parts = entry_parts("items", ((sample.id, write_sample(sample)) for sample in samples), PART)
    files = stamps(model=settings.checkpoint, vectors=settings.similarity.vectors)
    run(JobSpec(GroundJob, {"settings": settings}, BATCH, files), parts, out, engine)
    result = GroundingResult(name, features, settings.method, settings.grounder().description)
    for row in OutputFolder(out).rows():
        if row["error"]:
            result.failed[row["id"]] = row["error"]
        else:
            result.images.append(GroundedImage.from_dict(orjson.loads(row["grounded"])))
    if not result.images:
        image, why = next(iter(result.failed.items()), ("", "there is none"))
        raise DatasetError(f"no image could be grounded, such as {image}: {why}")
    return result
