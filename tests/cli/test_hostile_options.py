"""Option values that make no sense: a message and exit code 2, never a traceback, and no work that does not end."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.errors import CaptrialError
from data.pools.photos import write_photos

NUMBERS = ["0", "-1", "-999999999999", "99999999999999999999999", "nan", "inf", "1e309", "", "x"]
SHARES = ["train=nan", "train=inf", "train=-1", "=", "train=1e400", "x=1", ",,", "train=0"]
PATHS = ["", "\0", "x" * 5000, "/dev/null", "/"]
TOYWORLD = ["data", "toyworld", "OUT", "--images", "2", "--size", "32"]
SHEET = ["data", "contact-sheet", "OUT.png", "--images", "2", "--size", "32"]
BUILD = ["pool", "build", "OUT", "--from", "PHOTOS"]
CASES = [
    *[([*TOYWORLD, option], NUMBERS) for option in ("--images", "--seed", "--size", "--workers", "--format")],
    *[([*SHEET, option], NUMBERS) for option in ("--images", "--seed", "--size", "--columns", "--start")],
    *[([*line, "--splits"], SHARES) for line in (TOYWORLD, SHEET)],
    *[
        ([*BUILD, option], NUMBERS)
        for option in ("--max-pixels", "--near-distance", "--workers", "--concurrency", "--retries", "--max-bytes")
    ],
    (["pool", "build", "OUT", "--from"], [*PATHS, "=", "=x", "a=", "../../evil=PHOTOS"]),
    *[(line, PATHS) for line in (["pool", "show"], ["data", "show"], ["verify"])],
    *[(["data", "show", "PHOTOS", option], ["", "+", "nope", "\0"]) for option in ("--split", "--form", "--images")],
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
