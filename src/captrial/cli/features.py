"""`captrial features`: extract the features of a data set once, into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.engine_options import EngineName, EngineOptions, RayAddress, Workers
from captrial.cli.output import JsonFlag, console_err, print_json, print_table
from captrial.cli.study_options import ImagesOption
from captrial.vision.registry import BACKBONES, DEFAULT_BACKBONE, DETECTORS, FEATURE_FORMATS, known_names

LISTED = 5  # images that cannot be opened, by name
KNOWN = f"{known_names(BACKBONES, DETECTORS)}; features of another program: {known_names(FEATURE_FORMATS)}"


def features(
    data: Annotated[
        Path,
        typer.Argument(
            help="A data set: annotations, a folder of images; .tar shards, .parquet files, a .txt of URLs."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The feature store: a folder; an unfinished one is continued.")],
    backbone: Annotated[
        str, typer.Option("--backbone", help=f"What the features come from: {KNOWN}. See docs/vision.md.")
    ] = DEFAULT_BACKBONE,
    images: ImagesOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Only these splits, e.g. train+val.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images in a batch.")] = 32,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    json: JsonFlag = False,
) -> None:
    """Extract features of all images once, for training; a stopped extraction continues.

    captrial features dataset_flickr8k.json --out features/flickr8k

    Features of another program are copied: --backbone tsv:FILE, hdf5:FILE or npz:FOLDER. Regions and relations that
    the data set itself knows (a toy world) are taken from there: --backbone truth+GRID.
    """
    from captrial.data import read_dataset
    from captrial.engines.inputs import find_parts, holds_rows
    from captrial.training.feature_extraction import Extraction, check_one_process, extract_dataset, runs_on_engines

    where = EngineOptions(engine, workers, ray_address)
    rows = not split and not images and holds_rows(data)
    if where.several:
        check_one_process(backbone)
    if runs_on_engines(backbone) and (rows or where.several):
        from captrial.engines.jobs.extract_features import extract_all, sample_parts

        parts = find_parts(data) if rows else sample_parts(read_dataset(data, split=split, images=images))
        done = Extraction(*extract_all(parts, out, backbone, where.make(), batch=batch_size))
    else:
        done = extract_dataset(read_dataset(data, split=split, images=images), backbone, out, batch_size)
    if json:
        print_json({"store": str(out), **vars(done)})
        return
    for line in done.refusals(LISTED):
        console_err.print(f"  {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    counts = [("images in the store", done.images), ("extracted now", done.extracted)]
    print_table(f"features in {out}", ["", "images"], [*counts, ("cannot be opened", len(done.refused))])
