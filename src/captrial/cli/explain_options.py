"""What `explain`, `ground`, `attend` and `reproduce` share: data with boxes, captioners, regions, how words compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.output import console_err, print_table
from captrial.errors import DatasetError, InputError

if TYPE_CHECKING:
    from captrial.attribution.dataset_attribution import CaptionAttributor
    from captrial.captioners.checkpoint import Checkpoint
    from captrial.grounding.tables import Table
    from captrial.language.similarity import Similarity
    from captrial.records import Sample
    from captrial.vision.features.feature_store import FeatureStore

DataOption = Annotated[Path, typer.Option("--data", help="Images with captions: a toy world, Karpathy JSON, COCO ...")]
ModelsOption = Annotated[str, typer.Option("--models", help="Run folders or shipped names, with commas between.")]
ImagesOption = Annotated[
    Path | None, typer.Option("--images", help="Folder of the images, if not beside the annotations.")
]
BoxesOption = Annotated[
    Path | None, typer.Option("--boxes", help='Boxes by image id: {"id": \\[\\[x1, y1, x2, y2, "class"], ...]}.')
]
SplitOption = Annotated[str | None, typer.Option("--split", help="Only this split of the data.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N images.")]
FeaturesOption = Annotated[
    Path | None, typer.Option("--features", help="A store made by `captrial features`; made in --out if absent.")
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the results; a stopped study goes on there.")]
OverOption = Annotated[
    str, typer.Option("--over", help="Attribute to the visual elements, or to pixels (slow: use --limit).")
]
StepsOption = Annotated[
    int | None,
    typer.Option("--steps", min=1, help="Steps of integrated gradients; by default as many as 1% needs (slower)."),
]
BeamOption = Annotated[int, typer.Option("--beam", min=1, help="Width of the beam search.")]
SimilarityOption = Annotated[
    str, typer.Option("--similarity", help="How nouns compare: table+vectors, or the papers' vectors alone.")
]
VectorsOption = Annotated[Path | None, typer.Option("--vectors", help="A GloVe or word2vec file for --similarity.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Of the resampling behind the intervals.")]


def read_samples(
    data: Path, images: Path | None, boxes: Path | None, split: str | None, limit: int | None
) -> tuple[list[Sample], list[str]]:
    """The images of a data set that are here, with the boxes of a file in place of its own; and all its labels."""
    from captrial.data import join, present, read_dataset
    from captrial.data.datasets import read_boxes

    samples = read_dataset(data, split=split, images=images)
    if boxes is not None:
        known = {sample.id for sample in samples}
        found = [other for other in read_boxes(boxes) if other.id in known]
        if not found:
            raise DatasetError(f"{boxes}: none of its ids is an image of {data}")
        samples = join([replace(sample, regions=()) for sample in samples], found)
    here = present(samples)
    if not here:
        raise DatasetError(f"{data}: none of its {len(samples)} images is here; give their folder with --images")
    if len(here) < len(samples):
        console_err.print(f"captrial: {len(here)} of {len(samples)} images of {data.name} are here", style="yellow")
    labels = sorted({region.label for sample in samples for region in sample.regions if region.label})
    return here[:limit], labels


def load_checkpoints(models: str) -> dict[str, Checkpoint]:
    """Checkpoints by name: `best` of a run folder, a checkpoint folder, or a shipped captioner."""
    from captrial.captioners.checkpoint import Checkpoint

    return {name: Checkpoint.from_pretrained(path) for name, path in checkpoint_paths(models).items()}


def checkpoint_paths(models: str) -> dict[str, Path]:
    """The folders of checkpoints, by name."""
    from captrial.captioners.registry import shipped_captioners

    found: dict[str, Path] = {}
    for source in models.split(","):
        path = Path(shipped_captioners().get(source, source))
        best = path / "best"
        name = path.parent.name if path.name == "best" else path.name
        if name in found:
            raise InputError(f"--models: two captioners are called {name}; rename one of the folders")
        found[name] = best if best.is_dir() else path
    return found


def features_for(checkpoint: Checkpoint, samples: Sequence[Sample], given: Path | None, out: Path) -> FeatureStore:
    """The features a captioner looks at: the store given, if it is of the right kind, else one kept in `out`."""
    from captrial.files import content_hash
    from captrial.training.feature_extraction import features_of
    from captrial.vision.devices import best_device
    from captrial.vision.features.feature_store import FeatureStore
    from captrial.vision.registry import load_backbone

    if given is not None:
        return FeatureStore(given, checkpoint.vision)
    name = content_hash(repr(sorted(checkpoint.vision.items(), key=str)), 8)
    return features_of(samples, load_backbone(checkpoint.vision).to(best_device()), out / "features" / name)


def method_names(methods: str) -> list[str]:
    """The methods between commas; refused before any work is done where there is no such method."""
    from captrial.attribution.methods.registry import dataset_method

    names = [name.strip() for name in methods.split(",")]
    for name in names:
        dataset_method(name)
    return names


def check_over(over: str) -> None:
    """Refuse what nothing can be attributed to."""
    if over not in ("elements", "pixels"):
        raise InputError(f"--over {over}: there are elements and pixels")


def check_regions(regions: str, *others: str) -> None:
    """Refuse, before any work is done, regions that are neither a detector's nor one of `others`."""
    from captrial.vision.registry import is_detector

    if regions not in others and not is_detector(regions):
        known = ", ".join(("localiser", "onnx:FILE", "detr:MODEL", *others))
        raise InputError(f"--regions {regions}: there are {known} (see docs/vision.md)")


def goes_by_pixels(method: str, over: str) -> bool:
    """Whether a method attributes to pixels: attention knows visual elements only, whatever is asked for."""
    from captrial.attribution.methods.registry import dataset_method

    return over == "pixels" and dataset_method(method).by_gradients


def study_name(model: str, method: str, over: str, steps: int | None) -> str:
    """What the file of a captioner's results by one method is called."""
    few = f"-{steps}-steps" if steps and method == "integrated_gradients" else ""
    return f"{model}-{method}{'-pixels' * goes_by_pixels(method, over)}{few}"


def ask(
    name: str,
    checkpoint: Checkpoint,
    store: FeatureStore,
    method: str,
    beam: int,
    over: str,
    samples: Sequence[Sample],
    steps: int | None = None,
) -> CaptionAttributor:
    """A captioner asked by one method where it looks: over its visual elements, or over the pixels of the images."""
    from captrial.attribution.dataset_attribution import DatasetAttributor, PixelSource
    from captrial.attribution.methods.registry import AttributionSettings
    from captrial.vision.registry import load_backbone

    settings = AttributionSettings(steps=steps)
    if not goes_by_pixels(method, over):
        return DatasetAttributor(name, checkpoint, store, method, beam, settings=settings)
    images = {sample.id: sample.image.path for sample in samples if sample.image.path is not None}
    backbone = load_backbone(checkpoint.vision)
    return DatasetAttributor(
        name, checkpoint, store, method, beam, settings=settings, pixels=PixelSource(backbone, images)
    )


def open_similarity(mode: str, vectors: Path | None) -> Similarity:
    """How words compare."""
    from captrial.language.similarity import Similarity
    from captrial.language.vectors import WordVectors

    if mode == "table+vectors" and vectors is None:
        return Similarity.default()
    return Similarity(WordVectors.open(vectors), mode=mode)  # type: ignore[arg-type]


def print_tables(tables: Sequence[Table]) -> None:
    """Tables for people; one with groups of columns is printed group by group, since it would be too wide."""
    for table in tables:
        for part in table.parts():
            print_table(part.title, part.columns, part.shown(), part.notes)
