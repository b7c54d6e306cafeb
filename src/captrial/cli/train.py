"""`captrial train`: train a captioner on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.output import JsonFlag, hold_lock, print_json, print_table, print_warning
from captrial.cli.study_options import ImagesOption
from captrial.errors import InputError
from captrial.vision.registry import DEFAULT_BACKBONE, detector_usages

if TYPE_CHECKING:
    from captrial.records import Sample

FEW_IMAGES = 1000  # below this many, a captioner trained from scratch says little that is right
CHECKED_CAPTIONS = 20  # validation images that are captioned once more, to notice empty captions


def train(
    preset: Annotated[str, typer.Argument(help="What to train; `captrial models` lists the presets.")],
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
            help=f"Where features come from; {DEFAULT_BACKBONE}, or what made the store of --features "
            "(another is refused). See docs/vision.md.",
            show_default=False,
        ),
    ] = None,
    images: ImagesOption = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Fine-tune a shipped captioner (its name), or continue from a run or checkpoint."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=0, help="Epochs of cross-entropy, as --set epochs.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images in a batch, as --set batch.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1, as --set device.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use the first N training and validation images.")] = None,
    boxes: Annotated[
        Path | None, typer.Option("--boxes", help="Boxes with classes by image id, for --set supervision=weak.")
    ] = None,
    regions: Annotated[
        str | None, typer.Option("--regions", help=f"A detector for the same: {detector_usages()}.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Train a captioner: cross-entropy, then SCST with `--set scst_epochs=5`. A stopped run continues.

    captrial train transformer-small --data dataset_flickr8k.json --out runs/mine
    captrial train ort-small --data photos.csv --from ort --epochs 3 --out runs/tuned
    """
    from captrial.captioners.checkpoint import Checkpoint
    from captrial.data import read_dataset
    from captrial.data.datasets import with_boxes
    from captrial.training.data import split_samples
    from captrial.training.feature_extraction import training_features
    from captrial.training.parallel import Ranks
    from captrial.training.recipe import parse_settings
    from captrial.training.run import (
        REGIONS,
        TrainingData,
        check_options,
        check_run_folder,
        count_empty_captions,
        find_start,
    )
    from captrial.training.run import train as run_training

    if regions is not None and boxes is not None:
        raise InputError("--boxes and --regions both give regions; use one of them")
    given = {"epochs": epochs, "batch": batch_size, "device": device}
    chosen = parse_settings(options or []) | {name: str(value) for name, value in given.items() if value is not None}
    recipe, _ = check_options(preset, chosen)
    first = None if start is None else find_start(start)
    run, ranks = out or Path("runs") / preset, Ranks.from_environment().on(recipe.device)
    if ranks.is_first:
        hold_lock(run, "training run")
    check_run_folder(run)
    training, validation = (part[:limit] for part in split_samples(read_dataset(data, images=images), str(data)))
    if first is None and len(training) < FEW_IMAGES:
        print_warning(f"{len(training)} training images are few; fine-tune a shipped captioner instead: --from ort")
    if boxes is not None:
        training = with_boxes(training, boxes)
    if regions is not None:  # by the first rank, for all
        detected = training
        training = ranks.first_then_all(lambda: _detect(detected, regions, run / REGIONS))
    vision = backbone or (None if first is None else Checkpoint.from_pretrained(first).vision)
    store = training_features([*training, *validation], features, vision, run / "features", ranks)
    notes = {"data": data.name, "images": len(training)}
    best = run_training(
        preset, TrainingData(training, validation, store, store.vision, notes), run, chosen, start=first
    )
    ranks.leave()
    if not ranks.is_first:
        return
    checked = validation[:CHECKED_CAPTIONS]
    empty = count_empty_captions(best, store, checked)
    if empty:
        print_warning(
            f"{empty} of {len(checked)} validation captions are empty: train longer (--epochs), or use --from ort"
        )
    _print_run(run, f"{preset} on {data.name}", best.captioner.count_parameters(), empty, json)


def _print_run(run: Path, title: str, parameters: int, empty: int, json: bool) -> None:
    from captrial.training.loop import METRICS

    header, *rows = (line.split(",") for line in (run / METRICS).read_text().splitlines())
    if json:
        print_json({"run": str(run), "parameters": parameters, "epochs": len(rows), "empty_captions": empty})
        return
    notes = [f"{parameters:,} parameters; the best is in {run / 'best'}", f"captrial caption IMAGE --model {run}"]
    print_table(title, header, rows, notes)


def _detect(samples: list[Sample], detector: str, keep: Path) -> list[Sample]:
    from captrial.grounding.regions import detect_regions
    from captrial.vision.registry import load_detector

    return detect_regions(samples, load_detector(detector), keep)
