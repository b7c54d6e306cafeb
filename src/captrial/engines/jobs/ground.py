"""GroundingScore of captions by workers: each loads the captioner, looks, and grounds its share of the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import orjson
import pyarrow as pa

from captrial.attribution.dataset_attribution import CaptionAttributor
from captrial.data.images import size_of
from captrial.engines.engine import Engine, run
from captrial.engines.inputs import entry_parts, stamps
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import OutputFolder
from captrial.errors import DatasetError
from captrial.grounding.grounding_score import Grounder
from captrial.grounding.grounding_study import (
    BATCH,
    Grounded,
    GroundedImage,
    ground_batch,
)
from captrial.records import Box, ImageRef, Region, Sample

PART = 128  # images a part: attributions take a second each on a processor


class GroundJob(Job):
    """Captions images and grounds every noun; a row is an image with its size and labelled boxes."""

    schema: ClassVar[pa.Schema] = pa.schema([("grounded", pa.string())])  # JSON, see `GroundedImage.to_dict`

    def __init__(
        self,
        checkpoint: str,
        features: str,
        method: str,
        beam: int,
        labels: Sequence[str],
        similarity: tuple[str, str | None],
        threshold: float | None,
    ) -> None:
        from captrial.attribution.dataset_attribution import DatasetAttributor
        from captrial.captioners.checkpoint import Checkpoint
        from captrial.language.similarity import Similarity
        from captrial.language.vectors import WordVectors
        from captrial.vision.features.feature_store import FeatureStore

        loaded, (mode, vectors) = Checkpoint.from_pretrained(checkpoint), similarity
        usual = mode == "table+vectors" and vectors is None
        words = Similarity.default() if usual else Similarity(WordVectors.open(vectors), mode=mode)  # type: ignore[arg-type]
        self.attributor = DatasetAttributor("", loaded, FeatureStore(features, loaded.vision), method, beam)
        self.grounder = Grounder(labels, words, threshold)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """One line of a study an image."""
        found = ground_batch(self.attributor, [read_sample(row["id"], row["item"]) for row in rows], self.grounder)
        return [{"grounded": orjson.dumps(image.to_dict()).decode()} for image in found]


def write_sample(sample: Sample) -> str:
    """An image's size and labelled boxes as JSON."""
    boxes = [[*region.box, region.label, region.score] for region in sample.regions]
    return orjson.dumps({"size": size_of(sample), "regions": boxes}).decode()


def read_sample(name: str, line: str) -> Sample:
    """What `write_sample` wrote."""
    record = orjson.loads(line)
    regions = tuple(Region(Box(*box), label, score) for *box, label, score in record["regions"])
    return Sample(ImageRef(name, None, *record["size"]), regions=regions)


def ground_all(
    attributor: CaptionAttributor,
    samples: Sequence[Sample],
    grounder: Grounder,
    seen: str,
    out: Path,
    engine: Engine,
    *,
    checkpoint: Path,
    features: Path,
    beam: int = 5,
    similarity: tuple[str, Path | None] = ("table+vectors", None),
    threshold: float | None = None,
) -> Grounded:
    """`captrial.grounding.grounding_study.ground` on an engine; workers make `attributor` and `grounder` again.

    An image that cannot be done is in `failed` and a note of the tables, not the end of the run.
    """
    arguments = {
        "checkpoint": str(checkpoint.absolute()),
        "features": str(features.absolute()),
        "method": attributor.method,
        "beam": beam,
        "labels": grounder.labels,
        "similarity": (similarity[0], str(similarity[1]) if similarity[1] else None),
        "threshold": threshold,
    }
    parts = entry_parts("items", ((sample.id, write_sample(sample)) for sample in samples), PART)
    run(JobSpec(GroundJob, arguments, BATCH, stamps(model=checkpoint, vectors=similarity[1])), parts, out, engine)
    result = Grounded(attributor.name, seen, attributor.method, grounder.description)
    for row in OutputFolder(out).rows():
        if row["error"]:
            result.failed[row["id"]] = row["error"]
        else:
            result.images.append(GroundedImage.from_dict(orjson.loads(row["grounded"])))
    if not result.images:
        image, why = next(iter(result.failed.items()), ("", "there is none"))
        raise DatasetError(f"no image could be grounded, such as {image}: {why}")
    return result
