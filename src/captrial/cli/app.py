"""The root of the command line: registers the commands, and turns errors into a message and an exit code."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from captrial.cli.output import console_err, set_running
from captrial.errors import CaptrialError
from captrial.version import __version__

BAD_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143

COMMANDS = (
    *("annotate", "attend", "caption", "compete", "data", "demo", "doctor", "explain", "features", "gate", "ground"),
    *("judge", "models", "papers", "pool", "sample", "score", "studio", "train", "trial", "verify"),
)  # one module each, with a function of that name, or with an `app` that has commands of its own


class _Commands(Mapping[str, Any]):
    """The commands by name; the module of a command is imported when the command is looked up."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        module = import_module(f"captrial.cli.{name}")
        if hasattr(module, "app"):
            group = typer.main.get_group(module.app)
            group.name = name
            return group
        single = typer.Typer(add_completion=False)
        single.command(name)(getattr(module, name))
        return typer.main.get_command(single)


class CommandGroup(TyperGroup):
    """The root command: importing and describing the other commands is left until they are needed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]


app = typer.Typer(
    name="captrial",
    cls=CommandGroup,
    help="Put image captioners on trial: rank them on your images, explain every word, score without Java.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the command; `main` reads `--debug`, so that it may be anywhere on the line."""
    set_running(context)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with 0 done, 1 check failed, 2 bad usage or input, 3 undecided, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    if isinstance(sys.stdout, io.TextIOWrapper):  # file names need not be UTF-8; stderr is like this already
        sys.stdout.reconfigure(errors="backslashreplace")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # so that temporary files are removed
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
    except (UnicodeEncodeError, TypeError) as error:  # the latter is orjson's
        strange = next((text for text in arguments if not _is_utf8(text)), None)
        if debug or strange is None or "surrogates" not in str(error):
            raise
        _print_error(f"{strange!a}: bytes that are no UTF-8 are not possible here; use another name or text")
        raise SystemExit(BAD_INPUT) from None
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the exit code of typer for Ctrl-C
            console_err.print("captrial: interrupted; run the same command again to continue")
        raise


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _print_error(message: str) -> None:
    console_err.print(f"[bold red]captrial:[/] {escape(message)}", soft_wrap=True, highlight=False)
