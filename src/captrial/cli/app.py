"""The root of the command line: collects the verbs and turns our errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape

from captrial.cli import (
    annotate,
    attend,
    caption,
    compete,
    data,
    demo,
    doctor,
    explain,
    features,
    ground,
    models,
    pool,
    reproduce,
    score,
    studio,
    train,
)
from captrial.cli.output import console_err
from captrial.errors import CaptrialError
from captrial.version import __version__

BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    name="captrial",
    help="Put image captioners on trial: rank them on your images, explain every word, score without Java.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("attend")(attend.attend)
app.command("caption")(caption.caption)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("explain")(explain.explain)
app.command("features")(features.features)
app.command("ground")(ground.ground)
app.command("models")(models.models)
app.command("score")(score.score)
app.command("studio")(studio.studio)
app.command("train")(train.train)
app.add_typer(annotate.app, name="annotate")
app.add_typer(data.app, name="data")
app.add_typer(pool.app, name="pool")
app.add_typer(compete.app, name="compete")
app.add_typer(reproduce.app, name="reproduce")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb; `--debug` is read in `main`, so that it works anywhere on the line."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 fine, 2 bad usage or bad input, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        app([argument for argument in arguments if argument != "--debug"])
    except CaptrialError as error:
        if debug:
            raise
        _complain(str(error))
        raise SystemExit(BAD_INPUT) from None
    except OSError as error:  # what no room foresaw: a folder that may not be written, a full disk
        if debug:
            raise
        _complain(f"{_place(error)}{error.strerror or error}; check the path, its permissions and the room on the disk")
        raise SystemExit(BAD_INPUT) from None
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer makes this of Ctrl-C
            console_err.print("captrial: interrupted; run the same command again to continue")
        raise


def _complain(sentence: str) -> None:
    console_err.print(f"[bold red]captrial:[/] {escape(sentence)}", soft_wrap=True, highlight=False)


def _place(error: OSError) -> str:
    return f"{error.filename}: " if error.filename is not None else ""
