"""Killed at any moment, a step can be run again and ends as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from captrial.cli import main
from compete import synthetic

# Dies like `kill -9` at the n-th rename of a finished temporary file, before or after it.
CODE = """
import os, pathlib, signal, sys
rename, count = pathlib.Path.replace, 0
number, after = int(sys.argv[1]), sys.argv[2] == "after"
def replace(self, target):
    global count
    count += 1
    if count == number and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    done = rename(self, target)
    if count == number and after:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
pathlib.Path.replace = replace
from captrial.cli import main
main(sys.argv[3:])
"""


def contents(directory: Path) -> dict[str, bytes]:
    """All finished files; a killed run may leave a hidden temporary one."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["compete", *arguments])
    assert stopped.value.code in (0, None)


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_rename(tmp_path: Path, when: str, capsys: pytest.CaptureFixture[str]) -> None:
    files, _ = synthetic.write_files(tmp_path, synthetic.captions(40, 3))
    captions = [part for name, path in files.items() for part in ("--captions", f"{name}={path}")]
    whole = tmp_path / "whole"
    run("new", str(whole), *captions)
    after_new = contents(whole)
    run("select", str(whole), "--k", "5")
    after_select = contents(whole)
    for step, expected in (("new", after_new), ("select", after_select)):
        arguments = captions if step == "new" else ["--k", "5"]
        killed = 0
        for number in range(1, 50):
            directory = tmp_path / f"{step}{number}"
            if step == "select":
                run("new", str(directory), *captions)
            line = [sys.executable, "-c", CODE, str(number), when, "compete", step, str(directory), *arguments]
            done = subprocess.run(line, capture_output=True, check=False)
            if done.returncode != -signal.SIGKILL:
                break  # there are fewer renames than this
            killed += 1
            if step == "new" and (directory / "competition.json").exists():
                continue  # it had finished
            run(step, str(directory), *arguments)
            assert contents(directory) == expected
        assert killed >= 4
