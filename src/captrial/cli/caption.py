"""`captrial caption`: what a captioner says about some pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, print_json, print_table


def caption(
    pictures: Annotated[list[Path], typer.Argument(help="Picture files.")],
    model: Annotated[
        str | None,
        typer.Option(help="A shipped captioner, a run folder, a checkpoint, or an endpoint: http://host/v1#model."),
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Width of the beam search.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Also write a caption file: .json, .jsonl, .csv, .parquet.")] = None,
    json: JsonFlag = False,
) -> None:
    """Caption pictures; without --model by a small captioner that comes with the package."""
    from captrial.captioners.loading import load_captioner
    from captrial.captioners.shipped import DEFAULT
    from captrial.data import write_captions
    from captrial.data.pictures import open_picture

    opened = [open_picture(path) for path in pictures]
    said = load_captioner(model or DEFAULT, beam).caption(opened)
    captions = {str(path): text for path, text in zip(pictures, said, strict=True)}
    if out:
        write_captions(out, captions)
    if json:
        print_json(captions)
    else:
        print_table("captions", ["picture", "caption"], captions.items())
