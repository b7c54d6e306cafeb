"""GroundingScore of captions by workers: each loads the captioner, attributes and grounds its share of the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson
import pyarrow as pa

from captrial.data.datasets import masks
from captrial.data.datasets.coco import region_shapes
from captrial.data.sample_sizes import size_of
from captrial.engines.engine import Engine, run
from captrial.engines.inputs import entry_parts
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import REMAKE, OutputFolder
from captrial.errors import DatasetError, InputError, damage_named
from captrial.files import stamps
from captrial.grounding.error_rates import error_note
from captrial.grounding.presence import ABSENCE, NOUN_ODDS
from captrial.grounding.regions import DATA, ELEMENTS, calibration_of, dataset_regions, element_regions
from captrial.grounding.score import Grounder
from captrial.grounding.study import BATCH, GroundedImage, GroundingResult, RegionChoice, ground_batch, ground_dataset
from captrial.grounding.study_data import ImageModel, StudyAttribution, StudyImages, StudyModel
from captrial.language.similarity import SimilaritySettings
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.registry import load_detector

if TYPE_CHECKING:
    from captrial.vision.features.feature_store import FeatureStore

PART = 128  # images per part: attributions take a second each on a processor


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
    choice: RegionChoice = field(default_factory=RegionChoice)  # of the top region of a word

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
        self.grounder, self.choice = settings.grounder(), settings.choice

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The grounding of every image, as a line of a study."""
        samples = [read_sample(row["id"], row["item"]) for row in rows]
        found = ground_batch(self.attributor, samples, self.grounder, self.choice)
        return [{"grounded": orjson.dumps(image.to_dict()).decode()} for image in found]


def write_sample(sample: Sample, choice: RegionChoice) -> str:
    """An image's size, labelled boxes and, where they are chosen, masks (run-length encoded) as JSON."""
    shapes = region_shapes(sample, sample.regions, masks=choice.masks)
    boxes = [[*region.box, region.label, region.score] for region in shapes]
    encoded = [None if region.mask is None else masks.encode(region.mask) for region in shapes]
    extra = {name: sample.extra[name] for name in (NOUN_ODDS, ABSENCE, "sequence") if name in sample.extra}
    record = {"size": size_of(sample), "regions": boxes, "extra": extra, **({"masks": encoded} if choice.masks else {})}
    return orjson.dumps(record).decode()


def read_sample(name: str, line: str) -> Sample:
    """Read what `write_sample` wrote."""
    record = orjson.loads(line)
    encoded = record.get("masks", [None] * len(record["regions"]))
    regions = tuple(
        Region(Box(*box), label, score, None if mask is None else masks.decode(mask, name))
        for (*box, label, score), mask in zip(record["regions"], encoded, strict=True)
    )
    return Sample(ImageRef(name, None, *record["size"]), regions=regions, extra=record["extra"])


def ground_all(
    name: str, features: str, samples: Sequence[Sample], settings: GroundJobSettings, out: Path, engine: Engine
) -> GroundingResult:
    """`captrial.grounding.study.ground_dataset` on an engine, for the captioner `name` and its kind of `features`.

    An image that cannot be done is in `failed` and in a note of the tables; it does not end the run.
    """
    parts = entry_parts("items", ((sample.id, write_sample(sample, settings.choice)) for sample in samples), PART)
    files = stamps(model=settings.checkpoint, vectors=settings.similarity.vectors)
    run(JobSpec(GroundJob, {"settings": settings}, BATCH, files), parts, out, engine)
    grounder = settings.grounder()
    choice = settings.choice
    result = GroundingResult(
        name, features, settings.method, grounder.description, grounder=grounder, rule=choice.rule, masks=choice.masks
    )
    read_rows(OutputFolder(out), result)
    if not result.images:
        image, why = next(iter(result.failed.items()), ("", "there is none"))
        raise DatasetError(f"no image could be grounded, such as {image}: {why}")
    return result


def read_rows(output: OutputFolder, result: GroundingResult) -> None:
    """Add the images of a finished output to a result."""
    for row in output.rows():
        with damage_named(output.folder, REMAKE, f"holds no grounding of image {row.get('id')}"):
            if row["error"]:
                result.failed[row["id"]] = row["error"]
            else:
                result.images.append(GroundedImage.from_dict(orjson.loads(row["grounded"])))


@dataclass(frozen=True)
class GroundingStudy:
    """A data set grounded with several captioners and methods, in this process or on an engine."""

    out: Path  # nouns/<captioner>-<method>.jsonl are written there; a stopped study continues
    attribution: StudyAttribution
    similarity: SimilaritySettings
    choice: RegionChoice
    threshold: float | None  # tau_g; None for the calibrated one
    regions: str  # "data", a detector's name, or "elements"
    stamps: Mapping[str, str] = field(default_factory=dict)  # of further files that results depend on

    def run(
        self,
        found: StudyImages,
        models: Sequence[StudyModel | ImageModel],
        methods: Sequence[str],
        features: Path | None = None,
        engine: Engine | None = None,
    ) -> list[GroundingResult]:
        """One result a captioner and method; `features` is a store for all captioners."""
        detected = None
        if self.regions != ELEMENTS:
            detected = dataset_regions(found.samples, found.labels, self.regions, self.out)
        results = []
        for model in models:
            store = model.features(found.samples, features, self.out)
            if store is None and (detected is None or engine is not None):
                option = "--regions elements" if detected is None else "--engine and --workers"
                raise InputError(f"{option}: {model.name} reads images and has no stored features; leave it out")
            samples, labels = detected or element_regions(found.samples, store)  # type: ignore[arg-type]
            for method in methods:
                heading = model.heading + ", pixels" * self.attribution.by_pixels(method)
                keep = self.out / "nouns" / f"{self.attribution.file_stem(model.name, method)}.jsonl"
                if engine is not None and store is not None:
                    job = self._job(model, store, method, labels)
                    results.append(ground_all(model.name, heading, samples, job, keep.with_suffix(".parts"), engine))
                    continue
                attributor = model.attributor(self.attribution, store, method, found.samples)
                grounder = Grounder(labels, self.similarity.load(), self.threshold)
                results.append(
                    ground_dataset(attributor, samples, grounder, heading, keep, self._made_with(model), self.choice)
                )
        for result in results:
            result.error_note = self._error_note(result.method)
        return results

    def _error_note(self, method: str) -> str | None:
        """How often verdicts are wrong; None for the boxes of a data set, whose tables compare with the truth."""
        if self.regions in (DATA, ELEMENTS):
            return None
        return error_note(calibration_of(load_detector(self.regions)), method)

    def _job(
        self, model: StudyModel | ImageModel, store: FeatureStore, method: str, labels: Sequence[str]
    ) -> GroundJobSettings:
        checkpoint, folder = (str(path.absolute()) for path in (model.path, store.directory))
        beam = self.attribution.beam
        return GroundJobSettings(
            checkpoint, folder, method, beam, tuple(labels), self.similarity, self.threshold, self.choice
        )

    def _made_with(self, model: StudyModel | ImageModel) -> dict[str, Any]:
        return {
            "regions": self.regions,
            "beam": self.attribution.beam,
            **self.stamps,
            **stamps(checkpoint=model.path),
        }
