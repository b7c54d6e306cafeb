"""Two processes on one folder: the second is refused, with the other's name and what to do, and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.compete import Competition, SelectionSettings
from captrial.compete.competition import verify_competition
from captrial.errors import StateError
from captrial.folders import LOCK, lock_folder
from cli.writing_verbs import EXTENDING, FOLDERS, Inputs, contents


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    made = Inputs(tmp_path_factory.mktemp("inputs"))
    made.make()
    return made


@contextmanager
def locked_by_another(folder: Path) -> Iterator[None]:
    """A thread holds the lock: to `lock_folder` it is as foreign as another process."""
    held, finished = threading.Event(), threading.Event()

    def hold() -> None:
        with lock_folder(folder):
            held.set()
            finished.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    try:
        yield
    finally:
        finished.set()
        thread.join()


def competition(inputs: Inputs, folder: Path) -> Competition:
    made = Competition.create(folder, {name: inputs.folder / f"{name}.json" for name in "AB"})
    made.select(SelectionSettings(3, 3))
    return made


@pytest.mark.parametrize("name", [*FOLDERS, *EXTENDING])
def test_the_second_of_two_commands_is_refused(name: str, inputs: Inputs, tmp_path: Path) -> None:
    place = Inputs(tmp_path)
    for path in inputs.folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    made = competition(inputs, tmp_path / "COMPETITION")
    out = made.directory if name in EXTENDING else tmp_path / "out"
    line = place.arguments({**FOLDERS, **EXTENDING}[name], out)
    with locked_by_another(out):
        before = contents(out)
        result = CliRunner().invoke(app, line)
        assert isinstance(result.exception, StateError), result.output
        message = str(result.exception)
        assert f"process {os.getpid()} on " in message
        assert "since " in message
        assert f"remove {out / LOCK}" in message
        assert contents(out) == before


ADD = """
import sys, time
from captrial.cli.app import main
import captrial.compete.competition, captrial.compete.storage.creation, captrial.cli.compete
while time.time() < float(sys.argv[1]):
    pass
main(sys.argv[2:])
"""


def race(lines: list[list[str]], start: float) -> list[int]:
    """Commands that start their work at one moment; their exit codes."""
    workers = [
        subprocess.Popen([sys.executable, "-c", ADD, str(start), *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in lines
    ]
    codes = []
    for worker in workers:
        _, told = worker.communicate(timeout=300)
        codes.append(worker.returncode)
        assert b"Traceback" not in told, told.decode()
    return codes


@pytest.mark.full
def test_two_models_added_at_once_are_both_there_or_one_was_refused(inputs: Inputs, tmp_path: Path) -> None:
    for number in range(15):
        directory = tmp_path / str(number)
        competition(inputs, directory)
        files = {f"new{name}": inputs.folder / f"{name}.json" for name in "BC"}
        lines = [["compete", "add", str(directory), "--captions", f"{name}={path}"] for name, path in files.items()]
        codes = dict(zip(files, race(lines, time.time() + 8), strict=True))
        assert set(codes.values()) <= {0, 2}
        assert 0 in codes.values()
        found = Competition.open(directory)
        assert set(found.models) == {"A", "B", *(name for name, code in codes.items() if code == 0)}
        for name in set(found.models) - {"A", "B"}:
            block = found.pool.block(0, [found.models.index(name)])
            rows = {str(row["image_id"]): row["caption"] for row in json.loads(files[name].read_bytes())}
            assert dict(zip(block.ids.to_pylist(), block.captions[0].to_pylist(), strict=True)) == rows
        assert not verify_competition(directory).problems
