"""Progress bars inside each other, and what a terminal shows while captions are scored."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from captrial import progress


def test_a_bar_inside_another_is_a_line_of_it() -> None:
    with progress.progress_bar() as outer:
        outer.add_task("outer", total=2)
        with progress.progress_bar() as inner:
            inner.add_task("inner", total=3)
            assert inner is outer
            assert [task.description for task in outer.tasks] == ["outer", "inner"]
        assert [task.description for task in outer.tasks] == ["outer"]
    assert list(progress.track(progress.track([1, 2], "inner"), "outer")) == [1, 2]
    assert not progress._shown


def test_nothing_is_said_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress.say("a line")
    assert capsys.readouterr().err == ""


def test_scoring_shows_what_it_does_on_a_terminal(tmp_path: Path) -> None:
    captions = {str(number): f"a dog runs over field {number}" for number in range(20)}
    (tmp_path / "a.json").write_text(json.dumps(captions))
    (tmp_path / "r.json").write_text(json.dumps({image: [caption] for image, caption in captions.items()}))
    command = [sys.executable, "-m", "captrial", "score", "a.json", "--references", "r.json", "-m", "bleu,rouge,cider"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as run:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 4096):
                shown += more
        except OSError:  # the terminal of a process that has ended
            pass
    os.close(ours)
    assert run.returncode == 0, shown.decode()
    assert "a, CIDEr" in shown.decode()
