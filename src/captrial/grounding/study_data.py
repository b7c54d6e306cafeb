"""What a study of grounding or attention works on: images with boxes, captioners with their features, methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, PixelSource
from captrial.attribution.image_attribution import ExplainedCaptioner, ImageAttributor
from captrial.attribution.methods.registry import AttributionSettings, dataset_method
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import shipped_captioners
from captrial.data import present, read_dataset
from captrial.data.datasets import read_sequences, with_boxes
from captrial.errors import DatasetError, InputError, MismatchError
from captrial.files import content_hash
from captrial.records import Sample
from captrial.training.feature_extraction import features_of
from captrial.vision.devices import best_device
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.registry import load_backbone

ELEMENTS, PIXELS = "elements", "pixels"

# Images ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyImages:
    """The images of a data set that have a file, all labels of the data set, and how many images it should have."""

    samples: list[Sample]
    labels: list[str]
    present: int  # images with a file, before any limit
    total: int


@dataclass(frozen=True)
class DataSource:
    """A data set on disk: any that `captrial data show` reads."""

    path: Path
    images: Path | None = None  # folder of the images, if not beside the annotations
    boxes: Path | None = None  # boxes by image id, in place of the data set's own; a folder: of robot sequences
    split: str | None = None
    limit: int | None = None  # only the first images

    def read(self) -> StudyImages:
        """Read it; `DatasetError` if no image has a file, or if no id of the boxes is an image."""
        if self.boxes is not None and self.boxes.is_dir():  # of robot sequences, under the same names as the frames
            samples = read_sequences(self.path, boxes=self.boxes)
        else:
            samples = read_dataset(self.path, split=self.split, images=self.images)
        if self.boxes is not None and not self.boxes.is_dir():
            samples = with_boxes(samples, self.boxes)
        with_file = present(samples)
        if not with_file:
            problem = f"none of its {len(samples)} images is here; give their folder with --images"
            raise DatasetError(f"{self.path}: {problem}")
        labels = sorted({region.label for sample in samples for region in sample.regions if region.label})
        return StudyImages(with_file[: self.limit], labels, len(with_file), len(samples))

    def read_splits(self, wanted: Sequence[str], *, required: bool = True) -> dict[str, StudyImages]:
        """Images by split, each up to the limit; a data set without splits is `test`.

        `InputError` if it has none of the splits and `required`.
        """
        every = replace(self, split=None, limit=None).read()
        found = {name: [sample for sample in every.samples if sample.split == name] for name in wanted}
        if all(sample.split is None for sample in every.samples):
            found = {"test": every.samples}
        chosen = {name: replace(every, samples=part[: self.limit]) for name, part in found.items() if part}
        if required and not chosen:
            known = ", ".join(sorted({str(sample.split) for sample in every.samples}))
            problem = f"has no split {' or '.join(wanted)}; it has {known}: say which with --split"
            raise InputError(f"{self.path}: {problem}")
        return chosen


# Captioners -----------------------------------------------------------------------------------------------------------


def checkpoint_paths(models: str) -> dict[str, Path]:
    """Checkpoint folders by name, of names with commas between.

    A name is a run folder (its `best` checkpoint), a checkpoint folder, or a shipped captioner.
    """
    found: dict[str, Path] = {}
    for source in models.split(","):
        path = Path(shipped_captioners().get(source, source))
        if not path.is_dir():
            raise InputError(
                f"--models {source}: no such folder and no captioner of that name; there are: "
                f"{', '.join(shipped_captioners())}; or give a run folder"
            )
        best = path / "best"
        name = path.parent.name if path.name == "best" else path.name
        if name in found:
            raise InputError(f"--models: two captioners are called {name}; rename one of the folders")
        found[name] = best if best.is_dir() else path
    return found


@dataclass(frozen=True, eq=False)
class StudyModel:
    """A trained captioner under its name, with its checkpoint folder."""

    name: str
    path: Path
    checkpoint: Checkpoint

    @property
    def heading(self) -> str:
        """What its features are, as a heading of tables."""
        return features_heading(self.checkpoint.vision)

    def attributor(
        self, choice: StudyAttribution, store: FeatureStore | None, method: str, samples: Sequence[Sample]
    ) -> CaptionAttributor:
        """The captioner explained by one method."""
        assert store is not None, "a captioner of stored features"
        return choice.attributor(self, store, method, samples)

    def features(self, samples: Sequence[Sample], given: Path | None, folder: Path) -> FeatureStore:
        """The features that the captioner reads: the store `given`, else extracted in `folder`.

        `MismatchError` if the store holds features of another kind.
        """
        if given is not None:
            return FeatureStore(given, self.checkpoint.vision)
        vision = self.checkpoint.vision
        name = content_hash(repr(sorted(vision.items(), key=str)), 8)
        return features_of(samples, load_backbone(vision).to(best_device()), folder / "features" / name)

    def features_among(self, samples: Sequence[Sample], stores: Sequence[str], folder: Path) -> FeatureStore:
        """The features of the first store that fits; extracted in `folder` if none does."""
        for store in stores:
            try:
                return FeatureStore(store, self.checkpoint.vision)
            except MismatchError:
                continue
        return self.features(samples, None, folder)


@dataclass(frozen=True, eq=False)
class ImageModel:
    """A captioner of the transformers library under its name: it reads images, and stores no features."""

    name: str
    path: Path  # its folder; for a name on the hub that name
    captioner: ExplainedCaptioner
    captions: dict[str, str] = field(default_factory=dict)  # of images, for all methods

    heading = "image tokens or pixels"

    def features(self, samples: Sequence[Sample], given: Path | None, folder: Path) -> None:
        """It needs none."""
        if given is not None:
            raise InputError(f"--features {given}: {self.name} reads images, not stored features; leave the option out")

    def attributor(
        self, choice: StudyAttribution, store: FeatureStore | None, method: str, samples: Sequence[Sample]
    ) -> CaptionAttributor:
        """The captioner explained by one method."""
        images = {sample.id: sample.image.path for sample in samples if sample.image.path is not None}
        over = PIXELS if choice.by_pixels(method) else ELEMENTS
        settings = AttributionSettings(over=over, steps=choice.steps)  # type: ignore[arg-type]
        return ImageAttributor(self.name, self.captioner, images, method, settings, self.captions)


def load_any_models(models: str, **options: object) -> list[StudyModel | ImageModel]:
    """The captioners of `--models`: trained ones, and captioners and VLMs of the transformers library.

    `options` are those of a source (device, dtype, prompt), for the latter.
    """
    from captrial.captioners.loading import is_address, load_captioner, split_source, with_options
    from captrial.vision.hub_checkpoints import is_transformers

    sources: dict[str, tuple[str, Path | None]] = {}  # by name: the source, and its folder if it reads stored features
    for source in models.split(","):
        folder = Path(split_source(source)[0]).expanduser()
        if is_address(source):
            raise InputError(f"--models {source}: an endpoint gives no attention or gradients; explain it by occlusion")
        reads_images = is_transformers(folder) if folder.is_dir() else "/" in source
        named = {folder.name: None} if reads_images else checkpoint_paths(source)
        for name, path in named.items():
            if name in sources:
                raise InputError(f"--models: two captioners are called {name}; rename one of the folders")
            sources[name] = source, path
    found: list[StudyModel | ImageModel] = []
    for name, (source, path) in sources.items():
        if path is not None:
            found.append(StudyModel(name, path, Checkpoint.from_pretrained(path)))
        else:
            captioner: Any = load_captioner(with_options(source, **options))
            found.append(ImageModel(name, Path(split_source(source)[0]).expanduser(), captioner))
    return found


def load_models(models: str) -> list[StudyModel]:
    """The captioners of `checkpoint_paths`, loaded."""
    paths = checkpoint_paths(models)
    return [StudyModel(name, path, Checkpoint.from_pretrained(path)) for name, path in paths.items()]


def features_heading(vision: Mapping[str, Any]) -> str:
    """What a captioner's features are, as a heading of tables."""
    name = str(vision.get("backbone", "features"))
    return f"{name}, regions" if vision.get("regions") else name


# Methods --------------------------------------------------------------------------------------------------------------


def method_names(methods: str) -> list[str]:
    """The methods of a list with commas; `InputError` if one is not in the registry or not for data sets."""
    return [dataset_method(name.strip()).name for name in methods.split(",")]


@dataclass(frozen=True)
class StudyAttribution:
    """How words are attributed in a study: to visual elements or to pixels, by how many steps, with which beam."""

    over: str = ELEMENTS
    steps: int | None = None
    beam: int = 5

    def __post_init__(self) -> None:
        if self.over not in (ELEMENTS, PIXELS):
            raise InputError(f"--over {self.over}: there are {ELEMENTS} and {PIXELS}")

    def by_pixels(self, method: str) -> bool:
        """Whether a method attributes to pixels: attention is always over visual elements."""
        return self.over == PIXELS and dataset_method(method).by_gradients

    def file_stem(self, model: str, method: str) -> str:
        """The name of the file with a captioner's results by one method."""
        few = f"-{self.steps}-steps" if self.steps and method == "integrated_gradients" else ""
        return f"{model}-{method}{'-pixels' * self.by_pixels(method)}{few}"

    def attributors(
        self,
        models: Sequence[StudyModel | ImageModel],
        methods: Sequence[str],
        samples: Sequence[Sample],
        features: Path | None,
        folder: Path,
    ) -> Iterator[tuple[str, CaptionAttributor]]:
        """Every captioner explained by every method, each with its file stem; see `StudyModel.features`."""
        for model in models:
            store = model.features(samples, features, folder)
            for method in methods:
                yield self.file_stem(model.name, method), model.attributor(self, store, method, samples)

    def attributor(
        self, model: StudyModel, store: FeatureStore, method: str, samples: Sequence[Sample]
    ) -> DatasetAttributor:
        """A captioner explained by one method."""
        checkpoint, pixels = model.checkpoint, None
        if self.by_pixels(method):
            images = {sample.id: sample.image.path for sample in samples if sample.image.path is not None}
            pixels = PixelSource(load_backbone(checkpoint.vision), images)
        settings = AttributionSettings(steps=self.steps)
        return DatasetAttributor(model.name, checkpoint, store, method, self.beam, settings=settings, pixels=pixels)
