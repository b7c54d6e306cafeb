"""`captrial train`: train a captioner on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.options import ImagesOption
from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.errors import InputError
from captrial.vision.registry import DEFAULT_BACKBONE

if TYPE_CHECKING:
    from captrial.records import Sample


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
        Path | None, typer.Option("--from", help="Continue from another run or checkpoint, e.g. with scst_epochs=5.")
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
    from captrial.training.data import split_samples, with_boxes
    from captrial.training.feature_extraction import training_features
    from captrial.training.loop import METRICS
    from captrial.training.parallel import Ranks
    from captrial.training.recipe import parse_settings
    from captrial.training.run import TrainingData
    from captrial.training.run import train as run_training

    if regions is not None and boxes is not None:
        raise InputError("--boxes and --regions both give regions; use one of them")
    chosen = parse_settings(options or [])
    training, validation = split_samples(read_dataset(data, images=images))
    run = out or Path("runs") / preset
    if boxes is not None:
        training = with_boxes(training, boxes)
    if regions is not None:
        training = _detect(training, regions, run)
    ranks = Ranks.from_environment()
    store = training_features([*training, *validation], features, backbone, run / "features", ranks)
    notes = {"data": data.name, "images": len(training)}
    best = run_training(
        preset, TrainingData(training, validation, store, store.vision, notes), run, chosen, start=start
    )
    ranks.leave()
    if not ranks.is_first:
        return
    parameters = best.captioner.count_parameters()
    header, *rows = (line.split(",") for line in (run / METRICS).read_text().splitlines())
    if json:
        print_json({"run": str(run), "parameters": parameters, "epochs": len(rows)})
        return
    below = [f"{parameters:,} parameters; the best is in {run / 'best'}", f"captrial caption IMAGE --model {run}"]
    print_table(f"{preset} on {data.name}", header, rows, below)


def _detect(samples: list[Sample], detector: str, run: Path) -> list[Sample]:
    from captrial.grounding.regions import detect_regions
    from captrial.vision.registry import load_detector

    return detect_regions(samples, load_detector(detector), run / "regions.json")
