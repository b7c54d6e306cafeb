"""`captrial sample`: data with which the recipes of the README run as they are pasted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, console, hold_folder, print_json, print_next_step


def sample(
    out: Annotated[Path, typer.Argument(help="A new folder.")],
    images: Annotated[int, typer.Option(min=10, max=5000, help="How many images are rendered.")] = 120,
    json: JsonFlag = False,
) -> None:
    """Write sample images, caption files of three captioners, references and judgements, to try captrial with."""
    from captrial.demo import ExampleSettings, write_sample

    hold_folder(out)
    written = write_sample(out, ExampleSettings(images))
    if json:
        print_json({"out": str(out), "files": [str(path) for path in written]})
        return
    for path in written:
        console.print(path, highlight=False, soft_wrap=True, markup=False)
    files = f"{out}/mine.json {out}/theirs.json --references {out}/references.json"
    print_next_step(f"captrial score {files}", "which captions are better?")
