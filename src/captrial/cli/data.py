"""`captrial data`: show data sets, list the readers, render the toy world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, OverwriteFlag, console, print_json, print_table
from captrial.errors import InputError

ImagesOption = Annotated[int, typer.Option(help="Number of images, divided among the splits.", max=10_000_000)]
SeedOption = Annotated[int, typer.Option(help="Seed of the toy world.", min=-(2**63), max=2**63 - 1)]
SizeOption = Annotated[int, typer.Option(help="Width and height of an image in pixels.")]
SplitsOption = Annotated[str, typer.Option(help="Splits and their shares.", metavar="NAME=SHARE,...")]

app = typer.Typer(help="Show data sets, and render the toy world.", no_args_is_help=True)


@app.command()
def toyworld(
    out: Annotated[Path, typer.Argument(help="Folder to write: a new one, or an unfinished toy world.")],
    images: ImagesOption = 1000,
    seed: SeedOption = 0,
    size: SizeOption = 256,
    splits: SplitsOption = "train=6,val=1,test=1,wild=1,robot=1",
    image_format: Annotated[str, typer.Option(help="png or jpg.")] = "png",
    workers: Annotated[
        int, typer.Option(help="Number of processes; the result is the same for any number.", min=1, max=1024)
    ] = 1,
    json: JsonFlag = False,
) -> None:
    """Render the toy world: images with captions, boxes, masks, phrases and scene graphs."""
    from captrial.toyworld import ToyWorldSettings, write_toyworld

    settings = ToyWorldSettings(images, seed, size, _shares(splits), image_format)
    write_toyworld(out, settings, workers)
    if json:
        print_json({"out": str(out), **settings.document()})
        return
    rows = [(split, count) for split, count in settings.splits.items()]
    print_table(f"toy world in {out}", ["split", "images"], rows, [f"seed {seed}, {size} pixels; see README.txt"])


def _shares(text: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            shares[name] = float(share) if share else 1.0
        except ValueError:
            raise InputError(f"--splits: {part.strip()!r} is not NAME=SHARE, e.g. train=8,val=1") from None
    return shares


@app.command()
def show(
    data: Annotated[Path, typer.Argument(help="A data set: an annotation file, a folder, or shards.")],
    split: Annotated[str | None, typer.Option(help="Only these splits, e.g. train+restval.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the images, if not beside the annotations.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Its format, if not recognised: a name listed by `captrial data formats`.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show what a data set contains: its format, counts per split, problems, and captions that are not English."""
    from captrial.data.datasets import DatasetSummary, find_reader, problems, read_dataset
    from captrial.language.english import not_english

    found = find_reader(data, format)
    samples = read_dataset(found.path, split=split, images=images, format=found.format)
    summary, wrong = DatasetSummary(samples), problems(samples)
    captions = [(sample.id, caption) for sample in samples for caption in sample.captions]
    foreign = [captions[index] for index in not_english([caption for _, caption in captions])]
    if json:
        listed = [{"id": identity, "caption": text} for identity, text in foreign]
        print_json({"format": found.format, "path": str(found.path), **summary.document(), "not_english": listed})
        return
    notes = [f"problem: {text}" for text in wrong[:10]]
    notes += [f"not English? {identity}: {' '.join(text.split())}" for identity, text in foreign[:10]]
    counts = {"problems": len(wrong), "captions not in English": len(foreign)}
    notes += [f"{count} {what} in all" for what, count in counts.items() if count > 10]
    print_table(str(found), ["split", *summary.COLUMNS], summary.rows(), notes)


@app.command()
def formats(json: JsonFlag = False) -> None:
    """List the data set formats that can be read."""
    from captrial.data.datasets import READERS

    columns = ("name", "title", "description", "needs")
    rows = [tuple(getattr(reader, column) for column in columns) for reader in READERS.values()]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table("data set formats", ["name", "format", "content", "path to give"], rows)


@app.command("contact-sheet")
def contact_sheet(
    out: Annotated[Path, typer.Argument(help="Image file to write, e.g. toyworld.png.")],
    images: ImagesOption = 24,
    seed: SeedOption = 0,
    size: SizeOption = 256,
    splits: SplitsOption = "train=12,wild=6,robot=6",
    columns: Annotated[int, typer.Option(help="Images per row.", min=1, max=1000)] = 6,
    start: Annotated[int, typer.Option(help="Index of the first image of each split.", min=0, max=10**9)] = 0,
    overwrite: OverwriteFlag = False,
) -> None:
    """Draw images of the toy world with their boxes and captions on one sheet."""
    from captrial.toyworld import ToyWorldSettings, draw_sheet

    draw_sheet(out, ToyWorldSettings(images, seed, size, _shares(splits)), columns, start, overwrite=overwrite)
    console.print(f"{out}: {images} images", markup=False, highlight=False, soft_wrap=True)
