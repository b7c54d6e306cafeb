"""Option values that make no sense: a message and exit code 2, never a traceback, and no work that does not end."""

from __future__ import annotations

import io
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from captrial.cli.app import app, main
from captrial.errors import CaptrialError
from cli.writing_verbs import Inputs, contents
from data.pools.photos import write_photos
from malformed import memory_limit

NUMBERS = ["0", "-1", "-999999999999", "99999999999999999999999", "nan", "inf", "1e309", "", "x"]
SHARES = ["train=nan", "train=inf", "train=-1", "=", "train=1e400", "x=1", ",,", "train=0"]
PATHS = ["", "\0", "x" * 5000, "/dev/null", "/"]
TOYWORLD = ["data", "toyworld", "OUT", "--images", "2", "--size", "32"]
SHEET = ["data", "contact-sheet", "OUT.png", "--images", "2", "--size", "32"]
BUILD = ["pool", "build", "OUT", "--from", "PHOTOS"]
CASES = [
    *[([*TOYWORLD, option], NUMBERS) for option in ("--images", "--seed", "--size", "--workers", "--image-format")],
    *[([*SHEET, option], NUMBERS) for option in ("--images", "--seed", "--size", "--columns", "--start")],
    *[([*line, "--splits"], SHARES) for line in (TOYWORLD, SHEET)],
    *[
        ([*BUILD, option], NUMBERS)
        for option in ("--max-pixels", "--near-distance", "--workers", "--concurrency", "--retries", "--max-bytes")
    ],
    (["pool", "build", "OUT", "--from"], [*PATHS, "=", "=x", "a=", "../../evil=PHOTOS"]),
    *[(line, PATHS) for line in (["pool", "show"], ["data", "show"], ["verify"])],
    *[(["data", "show", "PHOTOS", option], ["", "+", "nope", "\0"]) for option in ("--split", "--format", "--images")],
]


@pytest.mark.parametrize(("line", "values"), CASES, ids=[" ".join(line) for line, _ in CASES])
def test_hostile_values(line: list[str], values: list[str], tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    for number, value in enumerate(values):
        names = {"OUT": str(tmp_path / str(number)), "OUT.png": str(tmp_path / f"{number}.png"), "PHOTOS": str(photos)}
        arguments = [names.get(part, part) for part in line] + [value.replace("PHOTOS", str(photos))]
        result = CliRunner().invoke(app, arguments)
        told = SystemExit | CaptrialError | OSError  # what `main` turns into a message
        assert result.exception is None or isinstance(result.exception, told), arguments


# Every option and argument of every command --------------------------------------------------------------------------

HOSTILE = [
    "nan",
    "inf",
    "-1",
    "0",
    "1000000000000",
    "",
    "\udcff",
    "x" * 5000,
    "FOLDER",
    "BINARY",
    "MISSING",
    "a=b=c",
    "?=",
]
STUDY = ["--data", "STUDY/world", "--models", "STUDY/one", "--features", "STUDY/features", "--limit", "2"]
TINY = [part for size in ("width=8", "heads=2", "hidden=8", "epochs=1", "min_count=1") for part in ("--set", size)]
SMALL = ["--backbone", "efficientnet-lite0?size=64"]
LINES: dict[str, list[str]] = {
    "annotate export": ["COMPETITION", "OUT.json"],
    "annotate import": ["COMPETITION", "REFERENCES"],
    "annotate invite": ["COMPETITION", "somebody"],
    "annotate qualification": ["COMPETITION", "PRACTICE"],
    "annotate serve": ["COMPETITION"],
    "annotate settings": ["COMPETITION", "writers=2"],
    "annotate simulate": ["COMPETITION", "REFERENCES", "--people", "3"],
    "annotate status": ["COMPETITION"],
    "attend": [*STUDY, "--out", "OUT"],
    "caption": ["PHOTO", "--model", "MODEL", "--beam", "1"],
    "compete add": ["COMPETITION", "--captions", "c=C"],
    "compete export": ["COMPETITION", "OUT", "--references", "REFERENCES"],
    "compete flip": ["COMPETITION", "--references", "REFERENCES"],
    "compete images": ["COMPETITION", "PHOTOS"],
    "compete new": ["OUT", "--captions", "a=A", "--captions", "b=B"],
    "compete plan": ["COMPETITION", "--references", "REFERENCES"],
    "compete rank": ["COMPETITION", "--references", "REFERENCES"],
    "compete repetition": ["COMPETITION"],
    "compete report": ["COMPETITION", "--references", "REFERENCES", "--out", "OUT"],
    "compete select": ["COMPETITION", "--k", "4", "--again"],
    "compete stability": ["COMPETITION", "--references", "REFERENCES"],
    "compete statistics": ["COMPETITION", "--references", "REFERENCES"],
    "compete status": ["COMPETITION"],
    "data contact-sheet": SHEET[2:],
    "data formats": [],
    "data show": ["STUDY/world"],
    "data toyworld": TOYWORLD[2:],
    "demo": ["--out", "BINARY"],
    "doctor": [],
    "explain": [
        "PHOTO",
        "--model",
        "MODEL",
        "--method",
        "attention",
        "--regions",
        "grid",
        "--beam",
        "1",
        "--out",
        "OUT",
    ],
    "features": ["PHOTOS", "--out", "OUT", *SMALL],
    "gate": ["A", "B", "--references", "REFERENCES"],
    "ground": [*STUDY, "--out", "OUT"],
    "judge compare": ["COMPETITION", "--references", "REFERENCES"],
    "judge rank": ["COMPETITION", "--judge-only"],
    "judge rubric": [],
    "judge run": ["COMPETITION", "--judge", "http://127.0.0.1:9/v1#tiny"],
    "models": [],
    "models import": ["transformer", "WEIGHTS", "--vocabulary", "WORDS", "--out", "OUT"],
    "sample": ["OUT", "--images", "10"],
    "papers cornia": [*STUDY, "--out", "OUT", "--methods", "attention", "--beam", "1"],
    "papers liu": [*STUDY, "--out", "OUT", "--beam", "1"],
    "papers wan": ["--data", "CAPTION_FILES", "--out", "OUT", "--metrics", "bleu"],
    "pool build": BUILD[2:],
    "pool show": ["POOL"],
    "score": ["A", "--references", "REFERENCES", "--metrics", "bleu"],
    "studio": [],
    "train": ["transformer-small", "--data", "WORLD", "--images", "IMAGES", *SMALL, "--out", "OUT", *TINY],
    "trial init": ["OUT.yaml"],
    "trial run": ["TRIAL"],
    "verify": ["COMPETITION"],
}


class TooLong(BaseException):
    """A command took longer than `SECONDS`."""


MEMORY = 3 << 30
SECONDS = 60  # on a busy machine; a command with tiny inputs takes one or two


def commands(command: Any = None, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """All commands of the command line, by their words."""
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    own = {" ".join(path): command} if path and command.invoke_without_command else {}
    return own | {
        words: found
        for name, inner in command.commands.items()
        for words, found in commands(inner, (*path, name)).items()
    }


def attacked_lines(name: str, values: Sequence[str], step: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Valid lines of a command in which one option or argument is hostile; `step` 6: each has other 2 of 13 values."""
    line, position = LINES[name], 0
    if name == "demo":  # which would begin with any folder that can be made
        values, step = ["", "BINARY", "x" * 5000], 1
    for number, parameter in enumerate(commands()[name].params, len(name)):
        chosen = values[number % step :: step]
        if parameter.param_type_name == "argument":
            for value in chosen:
                attacked = [*line]
                attacked[position : position + 1] = [value]
                yield value, attacked
            position += 1
        elif not parameter.is_flag:
            for value in chosen:
                yield value, [*line, f"{max(parameter.opts, key=len)}={value}"]


def end_of(arguments: list[str]) -> object:
    """The exit code of a command, or what it raised; its output is lost."""
    streams = sys.stdout, sys.stderr
    sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict")  # as those of a process
    sys.stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    signal.alarm(SECONDS)
    try:
        with memory_limit(MEMORY):
            main(arguments)
    except SystemExit as end:
        return end.code or 0
    except (Exception, TooLong) as error:
        return error
    finally:
        signal.alarm(0)
        sys.stdout, sys.stderr = streams
    return 0


def attack(name: str, lines: Iterable[tuple[str, list[str]]], inputs: Inputs, tmp_path: Path) -> None:
    tracebacks = []
    before = contents(inputs.folder)
    for number, (value, line) in enumerate(lines):
        place = tmp_path / str(number)
        shutil.copytree(inputs.folder, place / "inputs")
        placed = Inputs(place / "inputs").arguments(line, place / "out")
        with chdir(place):
            end = end_of([*name.split(), *placed])
        if end not in (0, 1, 2, 3):
            tracebacks.append((value[:20], line[-1][:60], repr(end)))
        shutil.rmtree(place)
    assert contents(inputs.folder) == before
    assert not tracebacks, f"{len(tracebacks)} of {number + 1}"


@pytest.fixture
def alarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands that take too long raise `TooLong`; servers end as soon as they have started."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    monkeypatch.setattr("captrial.annotate.web.sessions.WebContext.prepare_images", lambda _: None)  # by a thread
    handlers = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)}
    signal.signal(signal.SIGALRM, stop)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_lines_of_all_commands() -> None:
    assert LINES.keys() == commands().keys()


@pytest.mark.slow
@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize("name", LINES)
def test_hostile_options(name: str, everything: Inputs, tmp_path: Path) -> None:
    step = 6 if len(commands()[name].params) > 5 else 3
    attack(name, attacked_lines(name, HOSTILE, step), everything, tmp_path)


FOUND = [  # by the long run, and mended
    ("attend", ""),
    ("caption", "\udcff"),
    ("compete new", "\udcff"),
    ("ground", "1000000000000"),
    ("papers wan", "\udcff"),
    ("pool build", "\udcff"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize(("name", "value"), FOUND, ids=[name for name, _ in FOUND])
def test_hostile_values_that_gave_a_traceback(name: str, value: str, everything: Inputs, tmp_path: Path) -> None:
    attack(name, attacked_lines(name, [value]), everything, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize("name", LINES)
def test_all_hostile_options(name: str, everything: Inputs, tmp_path: Path) -> None:
    attack(name, attacked_lines(name, HOSTILE), everything, tmp_path)
