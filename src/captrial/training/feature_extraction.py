"""Features of a data set, extracted or copied once into a store; a killed extraction continues.

`extract_dataset` does what `captrial features` asks for by name: run a backbone (`extract`), take the regions that a
toy world knows (`extract_truth`), or copy features of another program (`import_precomputed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image

from captrial.data.image_source import sample_image
from captrial.data.images import ImageProblem, header_pixels, pixel_batches, try_open
from captrial.data.sample_sizes import size_of, with_size
from captrial.errors import DatasetError, InputError
from captrial.files import image_source, is_changed
from captrial.folders import lock_folder
from captrial.progress import progress_bar
from captrial.records import Box, Sample
from captrial.training.parallel import Ranks
from captrial.vision.backbones.base import Backbone
from captrial.vision.descriptions import PRECOMPUTED
from captrial.vision.detectors.base import (
    Detection,
    RegionBackbone,
    pack_regions,
    pool_regions,
    region_notes,
    require_whole,
)
from captrial.vision.devices import best_device
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.precomputed import PrecomputedFeatures, import_features
from captrial.vision.features.visual_features import Features
from captrial.vision.registry import DEFAULT_BACKBONE, TRUTH, is_precomputed, load_backbone, load_features, split_grid
from captrial.vision.scene_graphs import true_regions


@dataclass
class Extraction:
    """What an extraction did."""

    images: int  # in the store now
    extracted: int = 0  # by this run
    refused: dict[str, str] = field(default_factory=dict)  # id -> why the image could not be opened

    def refusals(self, most: int) -> list[str]:
        """Lines about the first images that could not be opened, and how many more there are."""
        lines = [f"{image}: {why}" for image, why in islice(self.refused.items(), most)]
        if len(self.refused) > most:
            lines.append(f"and {len(self.refused) - most} more; --json lists them all")
        return lines


def extract_dataset(samples: Sequence[Sample], name: str, directory: Path | str, batch: int = 32) -> Extraction:
    """Features of images by the name of a backbone, of `truth+GRID`, or of features of another program."""
    kind, grid = split_grid(name)
    if is_precomputed(name):
        return import_precomputed(samples, name, directory)
    if kind == TRUTH:
        return extract_truth(samples, load_backbone(grid or DEFAULT_BACKBONE).to(best_device()), directory, batch)
    return extract(samples, load_backbone(name).to(best_device()), directory, batch)


def runs_on_engines(name: str) -> bool:
    """Whether features of this name can be extracted by several workers."""
    return not is_precomputed(name) and split_grid(name)[0] != TRUTH


def check_one_process(name: str) -> None:
    """Refuse several workers for `truth+GRID`; features of another program are copied by one process in any case."""
    if split_grid(name)[0] == TRUTH:
        raise InputError(f"{TRUTH}+GRID runs in one process; leave out --engine and --workers")


def extract(samples: Sequence[Sample], backbone: Backbone, directory: Path | str, batch: int = 32) -> Extraction:
    """Add the features of every image that is not in the store yet; images that cannot be opened are reported."""
    return _extract(samples, lambda _, images: extract_batch(backbone, images), backbone.describe(), directory, batch)


def extract_truth(samples: Sequence[Sample], grid: Backbone, directory: Path | str, batch: int = 32) -> Extraction:
    """Regions, attributes and relations from a data set's own scene graphs (the toy world's), not from a detector.

    Their features are pooled from the `grid`. A captioner trained on them cannot caption new images.
    """
    require_whole(grid)
    for sample in samples:
        true_regions(sample)  # raises for an image without a scene graph, before a store is begun
    vision = {**grid.describe(), "backbone": f"{PRECOMPUTED}:{TRUTH}+{grid.name}", "grid": grid.describe()}
    return _extract(samples, partial(_true_features, grid), vision, directory, batch)


def _true_features(
    grid: Backbone, samples: Sequence[Sample], images: list[Image.Image]
) -> tuple[Features, list[dict[str, Any]]]:
    sizes = [image.size for image in images]
    graphs = [true_regions(sample) for sample in samples]
    found = [each or [Detection(Box(0, 0, *size))] for (each, _), size in zip(graphs, sizes, strict=True)]
    regions = pool_regions(grid, grid.extract(images), found, sizes)
    notes = [
        {**note, "relations": relations} for note, (_, relations) in zip(region_notes(regions), graphs, strict=True)
    ]
    return pack_regions(regions, sizes), notes


def _extract(
    samples: Sequence[Sample],
    compute: Callable[[Sequence[Sample], list[Image.Image]], tuple[Features, list[dict[str, Any]]]],
    vision: Mapping[str, Any],
    directory: Path | str,
    batch: int,
) -> Extraction:
    outcome = Extraction(0)
    with FeatureWriter(directory, vision) as writer, progress_bar() as bar:
        todo = [sample for sample in samples if sample.id not in writer.done or _is_changed(sample, writer)]
        task = bar.add_task("extracting features", total=len(samples), completed=len(samples) - len(todo))
        for part in pixel_batches(todo, _pixels, largest=batch):
            opened = _open(part, outcome.refused)
            if opened:
                shown = [sample for sample in part if sample.id in opened]
                features, notes = compute(shown, list(opened.values()))
                noted = notes or [{} for _ in shown]
                for note, sample in zip(noted, shown, strict=True):
                    note["image"] = image_source(sample_image(sample) or b"")
                writer.add(list(opened), features, noted)
            outcome.extracted += len(opened)
            bar.advance(task, len(part))
        outcome.images = len(writer.done)
    return outcome


def _pixels(sample: Sample) -> int:
    content = sample_image(sample)
    return 0 if content is None else header_pixels(content)


def _is_changed(sample: Sample, writer: FeatureWriter) -> bool:
    """Whether the file of an image has another content than its features were made from."""
    return sample.image.path is not None and is_changed(sample.image.path, writer.sources.get(sample.id))


def _open(samples: Sequence[Sample], refused: dict[str, str]) -> dict[str, Image.Image]:
    opened = {}
    for sample in samples:
        content = sample_image(sample)
        if content is None:
            raise DatasetError(f"image {sample.id} has no file; give the folder of the images: --images FOLDER")
        image = try_open(content, name=sample.id if isinstance(content, bytes) else None)
        if isinstance(image, ImageProblem):
            refused[sample.id] = str(image)
        else:
            opened[sample.id] = image
    return opened


def extract_batch(backbone: Backbone, images: list[Image.Image]) -> tuple[Features, list[dict[str, Any]]]:
    """Features, and labels and scores where the elements are regions."""
    if not isinstance(backbone, RegionBackbone):
        return backbone.extract(images), []
    regions = backbone.regions(images)
    return pack_regions(regions, [image.size for image in images]), region_notes(regions)


def import_precomputed(samples: Sequence[Sample], name: str, directory: Path | str) -> Extraction:
    """Copy features of another program (`tsv:FILE`, `hdf5:FILE`, `npz:FOLDER`) for images that are not in the store."""
    sized = [with_size(sample) if sample.image.path else sample for sample in samples]
    sizes = {sample.id: size_of(sample) for sample in sized if sample.image.width}
    source = load_features(name, sizes)
    assert isinstance(source, PrecomputedFeatures)
    with lock_folder(directory, "feature store"):
        with FeatureWriter(directory, source.vision) as writer:
            before = len(writer.done)
        store = import_features(source, directory, [sample.id for sample in samples])
    return Extraction(len(store), len(store) - before)


def training_features(
    samples: Sequence[Sample],
    store: Path | None,
    backbone: str | Mapping[str, Any] | None,
    directory: Path,
    ranks: Ranks,
) -> FeatureStore:
    """The features of a training run: a `store`, or those of the `backbone`, extracted into `directory`.

    The backbone is a name, or the description in a checkpoint that is trained further.
    With both, a store that another backbone made is refused. The first rank extracts, the others wait.
    """
    if store is not None:
        return FeatureStore(store, load_backbone(backbone).describe() if backbone else None)
    name = backbone or DEFAULT_BACKBONE
    return ranks.first_then_all(lambda: features_of(samples, load_backbone(name).to(ranks.device), directory))


def features_of(samples: Sequence[Sample], backbone: Backbone, directory: Path | str) -> FeatureStore:
    """The store of a data set, extracted first where something is missing."""
    outcome = extract(samples, backbone, directory)
    if outcome.refused:
        image, why = next(iter(outcome.refused.items()))
        raise DatasetError(f"{len(outcome.refused)} images cannot be opened, such as {image}: {why}")
    return FeatureStore(directory, backbone.describe())
