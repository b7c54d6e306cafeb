"""`captrial data`: make and look at data sets; `captrial data toyworld` writes the toy world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, console, print_json, print_table
from captrial.errors import InputError

app = typer.Typer(help="Make and look at data sets.", no_args_is_help=True)


@app.command()
def toyworld(
    out: Annotated[Path, typer.Argument(help="Folder to write; new, or the same toy world.")],
    images: Annotated[int, typer.Option(help="Images in all, divided among the splits.")] = 1000,
    seed: Annotated[int, typer.Option(help="Another seed, another world.")] = 0,
    size: Annotated[int, typer.Option(help="Width and height in pixels.")] = 256,
    splits: Annotated[
        str, typer.Option(help="Splits and their shares.", metavar="NAME=SHARE,...")
    ] = "train=6,val=1,test=1,wild=1,robot=1",
    format: Annotated[str, typer.Option(help="png or jpg.")] = "png",
    workers: Annotated[int, typer.Option(help="Processes; the result is the same for any number.")] = 1,
    json: JsonFlag = False,
) -> None:
    """Write rendered images with complete truth: captions, boxes, masks, phrases, scene graphs."""
    from captrial.toyworld.export import write_toyworld

    settings = write_toyworld(out, images, seed, size=size, shares=_shares(splits), format=format, workers=workers)
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
    path: Annotated[Path, typer.Argument(help="A data set: annotations, a folder, shards.")],
    split: Annotated[str | None, typer.Option(help="Only these splits, e.g. train+restval.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the images, if not beside the annotations.")] = None,
    form: Annotated[str | None, typer.Option(help="What it is, where the content does not say.")] = None,
    json: JsonFlag = False,
) -> None:
    """Say what a data set is and holds, what is wrong with it, and which captions are not English."""
    from captrial.data.datasets.summary import summarise
    from captrial.language.english import not_english

    summary = summarise(path, split=split, images=images, form=form)
    captions = [(sample.id, caption) for sample in summary.samples for caption in sample.captions]
    foreign = [captions[index] for index in not_english([caption for _, caption in captions])]
    if json:
        print_json({**summary.document(), "not_english": [{"id": one, "caption": text} for one, text in foreign]})
        return
    notes = [f"problem: {text}" for text in summary.problems[:10]]
    notes += [f"not English? {one}: {' '.join(text.split())}" for one, text in foreign[:10]]
    counted = {"problems": len(summary.problems), "captions not in English": len(foreign)}
    notes += [f"{count} {what} in all" for what, count in counted.items() if count > 10]
    print_table(str(summary.found), ["split", *summary.COLUMNS], summary.rows(), notes)


@app.command("contact-sheet")
def contact_sheet(
    out: Annotated[Path, typer.Argument(help="Image file to write, e.g. toyworld.png.")],
    images: Annotated[int, typer.Option(help="Images in all, divided among the splits.")] = 24,
    seed: Annotated[int, typer.Option(help="The world's seed.")] = 0,
    size: Annotated[int, typer.Option(help="Width and height of each image in pixels.")] = 256,
    splits: Annotated[
        str, typer.Option(help="Splits and their shares.", metavar="NAME=SHARE,...")
    ] = "train=12,wild=6,robot=6",
    columns: Annotated[int, typer.Option(help="Images in a row.", min=1)] = 6,
    start: Annotated[int, typer.Option(help="Index of the first image of each split.", min=0)] = 0,
) -> None:
    """Draw toy images with their boxes and captions on one sheet."""
    from captrial.toyworld.contact_sheet import draw_sheet

    draw_sheet(out, images, seed, size=size, shares=_shares(splits), columns=columns, start=start)
    console.print(f"{out}: {images} images", markup=False, highlight=False, soft_wrap=True)
