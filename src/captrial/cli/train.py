"""`captrial train`: a captioner of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.features import DEFAULT_BACKBONE, ImagesOption
from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.errors import DatasetError, InputError

if TYPE_CHECKING:
    from captrial.records import Sample

VALIDATION_SHARE = 10  # one image in so many, where a data set names no validation images


def train(
    preset: Annotated[str, typer.Argument(help="What to train; `captrial models` lists them.")],
    data: Annotated[Path, typer.Option("--data", help="Images with captions: karpathy.json, COCO, a toy world ...")],
    out: Annotated[Path | None, typer.Option("--out", help="Run folder; one that exists is continued.")] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe or a size.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option("--features", help="A store made by `captrial features`; made here if absent.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            "--backbone",
            help=f"What looks at the images; {DEFAULT_BACKBONE}, or what made the store of --features "
            "(another is refused). See docs/vision.md.",
            show_default=False,
        ),
    ] = None,
    images: ImagesOption = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="Go on from another run or checkpoint, e.g. with scst_epochs=5.")
    ] = None,
    boxes: Annotated[
        Path | None, typer.Option("--boxes", help="Boxes with classes by image id, for --set supervision=weak.")
    ] = None,
    regions: Annotated[
        str | None, typer.Option("--regions", help="A detector for the same: onnx:FILE, detr:MODEL, localiser.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Train a captioner: cross-entropy, then SCST with `--set scst_epochs=5`. A stopped run continues.

    captrial train transformer-small --data dataset_flickr8k.json --out runs/mine
    """
    from captrial.data import read_dataset
    from captrial.training.feature_extraction import features_of
    from captrial.training.parallel import Ranks
    from captrial.training.run import TrainingData
    from captrial.training.run import train as run_training
    from captrial.vision.features.feature_store import FeatureStore
    from captrial.vision.registry import load_backbone

    chosen = _split_options(options or [])
    training, validation = divide(read_dataset(data, images=images))
    run = out or Path("runs") / preset
    training = with_regions(training, boxes, regions, run)
    ranks = Ranks.from_environment()
    if features:
        store = FeatureStore(features, load_backbone(backbone).describe() if backbone else None)
    else:
        looking = backbone or DEFAULT_BACKBONE
        store = ranks.first_then_all(
            lambda: features_of([*training, *validation], load_backbone(looking).to(ranks.device), run / "features")
        )
    notes = {"data": data.name, "images": len(training)}
    best = run_training(
        preset, TrainingData(training, validation, store, store.vision, notes), run, chosen, start=start
    )
    ranks.leave()
    if not ranks.is_first:
        return
    parameters = best.captioner.count_parameters()
    header, *rows = (line.split(",") for line in (run / "metrics.csv").read_text().splitlines())
    if json:
        print_json({"run": str(run), "parameters": parameters, "epochs": len(rows)})
        return
    notes_below = [f"{parameters:,} parameters; the best is in {run / 'best'}", f"captrial caption PIC --model {run}"]
    print_table(f"{preset} on {data.name}", header, rows, notes_below)


def with_regions(samples: list[Sample], boxes: Path | None, regions: str | None, run: Path) -> list[Sample]:
    """The training images with boxes of a file or a detector in place of their own; kept in the run folder."""
    if regions is not None and boxes is not None:
        raise InputError("--boxes and --regions both say where things are; give one of them")
    if regions is not None:
        from captrial.grounding.regions import detect_regions
        from captrial.vision.registry import load_detector

        samples = detect_regions(samples, load_detector(regions), run / "regions.json")
    elif boxes is not None:
        from captrial.data import join
        from captrial.data.datasets import read_boxes

        known = {sample.id for sample in samples}
        found = [other for other in read_boxes(boxes) if other.id in known]
        if not found:
            raise DatasetError(f"{boxes}: none of its ids is a training image")
        samples = join([replace(sample, regions=()) for sample in samples], found)
    return samples


def divide(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Training and validation images: by the data set's splits, else every tenth image validates."""
    samples = [sample for sample in samples if sample.captions]
    training = [sample for sample in samples if sample.split in ("train", "restval", None)]
    validation = [sample for sample in samples if sample.split == "val"]
    if not training:
        raise DatasetError("no image with captions is in the split train; there is nothing to learn from")
    if not validation:
        validation = training[::VALIDATION_SHARE]
        training = [sample for number, sample in enumerate(training) if number % VALIDATION_SHARE]
    return training, validation


def _split_options(options: Sequence[str]) -> dict[str, str]:
    chosen = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key or not value:
            raise InputError(f"--set {option}: write KEY=VALUE, e.g. --set epochs=3")
        chosen[key] = value
    return chosen
