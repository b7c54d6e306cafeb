"""What the verbs of `captrial compete` share: options, opening the directory, and saying what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from captrial.cli.output import console, console_err
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete import Competition

Directory = Annotated[Path, typer.Argument(help="The competition's directory.", show_default=False)]
CaptionFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--captions", metavar="NAME=FILE", help="A model's name and its captions; once a model.", show_default=False
    ),
]
IgnoreChanges = Annotated[
    bool, typer.Option("--ignore-changes", help="Go on although a caption file has changed since it was read.")
]
References = Annotated[
    Path | None,
    typer.Option(help="Reference captions: a file or a data set. \\[default: the labels in the directory]"),
]
Split = Annotated[str | None, typer.Option(help="Use one split of the reference file.")]
MetricName = Annotated[str, typer.Option("--metric", help="cider, spice, bleu_4, rouge_l, ...")]


def named_files(options: list[str] | None) -> dict[str, Path]:
    """NAME=FILE options as a mapping; a file alone is named by its stem."""
    files: dict[str, Path] = {}
    for option in options or []:
        name, equals, file = option.partition("=")
        path = Path(file if equals else option)
        name = name if equals else path.stem
        if name in files:
            raise InputError(f"two caption files are named {name}; give each model a name of its own")
        files[name] = path
    return files


def open_competition(directory: Path, ignore_changes: bool) -> Competition:
    """Open the directory; a caption file that has changed is an error unless that is to be ignored."""
    from captrial.compete import Competition

    return Competition.open(directory, check_sources=not ignore_changes)


def say_next(command: str, why: str) -> None:
    """Name the next step."""
    console.print(f"[dim]next:[/] {escape(why)}\n  [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


def warn(sentence: str) -> None:
    """A remark that must not be overlooked, on stderr."""
    console_err.print(f"[bold yellow]note:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
