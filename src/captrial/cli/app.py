"""The root of the command line: collects the verbs and turns our errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from captrial.cli import annotate, compete, data, doctor, pool, score
from captrial.cli.output import console_err
from captrial.errors import CaptrialError
from captrial.version import __version__

app = typer.Typer(
    name="captrial",
    help="Put image captioners on trial: rank them on your pictures, explain every word, score without Java.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("doctor")(doctor.doctor)
app.command("score")(score.score)
app.add_typer(annotate.app, name="annotate")
app.add_typer(data.app, name="data")
app.add_typer(pool.app, name="pool")
app.add_typer(compete.app, name="compete")


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
    """Run the command line; exit codes: 0 fine, 1 a check failed, 2 bad usage or bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        app([argument for argument in arguments if argument != "--debug"])
    except CaptrialError as error:
        if debug:
            raise
        console_err.print(f"[bold red]captrial:[/] {_escaped(str(error))}", soft_wrap=True, highlight=False)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        console_err.print("captrial: interrupted; run the same command again to continue")
        raise SystemExit(130) from None


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
