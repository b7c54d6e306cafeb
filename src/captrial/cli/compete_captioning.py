"""`--captioner NAME=RUN`: captioners that speak for themselves before they compete, and what that cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from captrial.cli.captioner_files import note_source, refuse_another
from captrial.cli.compete_options import named_files
from captrial.errors import InputError

Captioners = Annotated[
    list[str] | None,
    typer.Option(
        "--captioner",
        metavar="NAME=RUN",
        help="A captioner to run over the images first: run folder, transformers checkpoint or owner/model, or "
        "http://host/v1#model; options behind a ?, e.g. owner/model?beam=3.",
        show_default=False,
    ),
]


def caption_files(
    directory: Path, captioners: list[str] | None, captions: list[str] | None, images: Path | None
) -> dict[str, Path]:
    """The caption file of every model: those of `captions`, and what `captioners` say of all images below `images`.

    What captioners said is kept beside the competition with their sources, so that an interrupted run continues.
    """
    files = named_files(captions)
    if not captioners:
        return files
    runs = _named(captioners)
    twice = sorted(runs.keys() & files.keys())
    if twice:
        raise InputError(f"a captioner and a caption file are both named {twice[0]}; give each model a name of its own")
    if images is None:
        raise InputError("--captioner needs --images, the folder of the images to caption")
    from captrial.captioners.batch_captioning import caption_to_file
    from captrial.captioners.loading import load_captioner
    from captrial.data.datasets import read_folder

    found = [sample.image for sample in read_folder(images)]
    said = {name: _folder(directory) / f"{name}.jsonl" for name in runs}
    for name, source in runs.items():
        refuse_another(said[name], source)  # before any captioner is run
    for name, source in runs.items():
        captioner = load_captioner(source)
        note_source(said[name], source)
        caption_to_file(captioner, found, said[name])
    return {**said, **files}


def _named(captioners: list[str]) -> dict[str, str]:
    named = {}
    for option in captioners:
        name, equals, source = option.partition("=")
        if not equals or not name or not source or name in named:
            raise InputError(f"--captioner {option}: give each captioner a name of its own, NAME=RUN")
        if "/" in name or name.startswith("."):
            raise InputError(f"--captioner {option}: the name becomes a file's; give it no / and no . in front")
        named[name] = source
    return named


def costs_of(directory: Path) -> dict[str, dict[str, Any]]:
    """What each captioner that we ran has cost: images, seconds, memory."""
    found = {path.name.removesuffix(".cost.json"): path for path in sorted(_folder(directory).glob("*.cost.json"))}
    return {name: orjson.loads(path.read_bytes()) for name, path in found.items()}


def tokens(cost: dict[str, Any]) -> float | None:
    """Tokens a caption, of endpoints that count them."""
    used = cost["prompt_tokens"] + cost["completion_tokens"]
    return used / max(1, cost["images"]) if used else None


def _folder(directory: Path) -> Path:
    directory = directory.resolve()  # `.` has no name
    return directory.with_name(f"{directory.name}.captions")
