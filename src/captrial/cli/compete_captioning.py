"""`--captioner NAME=RUN`: captioners that speak for themselves before they compete, and what that cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from captrial.cli.compete_options import named_files
from captrial.errors import InputError

Captioners = Annotated[
    list[str] | None,
    typer.Option(
        "--captioner",
        metavar="NAME=RUN",
        help="A captioner (run folder or checkpoint) to run over the pictures first.",
        show_default=False,
    ),
]


def run_captioners(directory: Path, captioners: list[str] | None, images: Path | None) -> dict[str, Path]:
    """Have every captioner describe all pictures below `images`; returns their caption files.

    The files are kept beside the competition, so that an interrupted run continues.
    """
    if not captioners:
        return {}
    if images is None:
        raise InputError("--captioner needs --images, the folder of the pictures to caption")
    from captrial.captioners.running import caption_to_file
    from captrial.captioners.trained import TrainedCaptioner
    from captrial.data.readers import read_folder

    pictures = [sample.picture for sample in read_folder(images)]
    files = {}
    for name, run in named_files(captioners).items():
        files[name] = _folder(directory) / f"{name}.jsonl"
        caption_to_file(TrainedCaptioner.load(run), pictures, files[name])
    return files


def costs_of(directory: Path) -> dict[str, dict[str, Any]]:
    """What each captioner that we ran has cost: pictures, seconds, memory."""
    found = {path.name.removesuffix(".cost.json"): path for path in sorted(_folder(directory).glob("*.cost.json"))}
    return {name: orjson.loads(path.read_bytes()) for name, path in found.items()}


def _folder(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.captions")
