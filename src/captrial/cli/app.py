"""The root of the command line: registers the commands, and turns errors into a message and an exit code."""

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
    verify,
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
app.command("verify")(verify.verify)
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
    """Options before the command; `main` reads `--debug`, so that it may be anywhere on the line."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with 0 done, 1 check failed, 2 bad usage or input, 3 undecided, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        app([argument for argument in arguments if argument != "--debug"])
    except CaptrialError as error:
        if debug:
            raise
        _print_error(str(error))
        raise SystemExit(BAD_INPUT) from None
    except OSError as error:  # not handled by the library: e.g. a folder that is not writable, a full disk
        if debug:
            raise
        place = f"{error.filename}: " if error.filename is not None else ""
        _print_error(f"{place}{error.strerror or error}; check the path, its permissions and the free disk space")
        raise SystemExit(BAD_INPUT) from None
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the exit code of typer for Ctrl-C
            console_err.print("captrial: interrupted; run the same command again to continue")
        raise


def _print_error(message: str) -> None:
    console_err.print(f"[bold red]captrial:[/] {escape(message)}", soft_wrap=True, highlight=False)
