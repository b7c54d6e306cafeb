"""`captrial features`: what a backbone sees in the images of a data set, extracted once into a store."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.engine_options import EngineName, RayAddress, Workers, chosen_engine, wants_engine
from captrial.cli.output import JsonFlag, console_err, print_json, print_table
from captrial.errors import InputError

TOLD = 5  # images that cannot be opened, by name
DEFAULT_BACKBONE = "efficientnet-lite2"
BackboneOption = Annotated[str, typer.Option("--backbone", help="What looks at the images; see docs/vision.md.")]
ImagesOption = Annotated[
    Path | None, typer.Option("--images", help="Folder of the images, if not beside the annotations.")
]


def features(
    data: Annotated[
        Path,
        typer.Argument(
            help="A data set: annotations, a folder of images; .tar shards, .parquet files, a .txt of URLs."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The feature store: a folder; an unfinished one is continued.")],
    backbone: BackboneOption = DEFAULT_BACKBONE,
    images: ImagesOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Only these splits, e.g. train+val.")] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Images at once.")] = 32,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    json: JsonFlag = False,
) -> None:
    """Extract features of all images once, for training; a stopped extraction continues.

    captrial features dataset_flickr8k.json --out features/flickr8k

    Features made elsewhere are copied: --backbone tsv:FILE, hdf5:FILE or npz:FOLDER. Regions and relations that the
    data set itself knows (a toy world) are taken from there: --backbone truth+GRID.
    """
    from captrial.data import read_dataset
    from captrial.engines.inputs import find_parts, holds_rows
    from captrial.training.feature_extraction import (
        Extraction,
        extract,
        extract_truth,
        import_precomputed,
    )
    from captrial.vision.devices import best_device
    from captrial.vision.registry import (
        DEFAULT_BACKBONE,
        TRUTH,
        is_precomputed,
        load_backbone,
        split_grid,
    )

    kind, grid = split_grid(backbone)
    rows = not split and not images and holds_rows(data)
    if is_precomputed(backbone):
        outcome = import_precomputed(read_dataset(data, split=split, images=images), backbone, out)
    elif kind == TRUTH:
        if wants_engine(engine, workers):
            raise InputError(f"{TRUTH}+GRID runs in one process; leave out --engine and --workers")
        looking = load_backbone(grid or DEFAULT_BACKBONE).to(best_device())
        outcome = extract_truth(read_dataset(data, split=split, images=images), looking, out, batch)
    elif rows or wants_engine(engine, workers):
        from captrial.engines.jobs.extract_features import extract_all, sample_parts

        parts = find_parts(data) if rows else sample_parts(read_dataset(data, split=split, images=images))
        outcome = Extraction(
            *extract_all(parts, out, backbone, chosen_engine(engine, workers, ray_address), batch=batch)
        )
    else:
        looking = load_backbone(backbone).to(best_device())
        outcome = extract(read_dataset(data, split=split, images=images), looking, out, batch)
    if json:
        print_json({"store": str(out), **vars(outcome)})
        return
    told = [f"{image}: {why}" for image, why in islice(outcome.refused.items(), TOLD)]
    if len(outcome.refused) > TOLD:
        told.append(f"and {len(outcome.refused) - TOLD} more; --json lists them all")
    for line in told:
        console_err.print(f"  {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    counts = [("images in the store", outcome.images), ("extracted now", outcome.extracted)]
    print_table(f"features in {out}", ["", "images"], [*counts, ("cannot be opened", len(outcome.refused))])
