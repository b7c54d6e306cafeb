"""`captrial trial`: the file it writes, exit codes and what it prints."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from captrial.cli.app import main
from cli.commands import answer, run_captrial
from judges.test_trial_file import World, own_cache  # noqa: F401  (a cache of its own for every test)


def ending(line: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(line)
    return ended.value.code


def test_init_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    run_captrial(["trial", "init", str(path)])
    assert "models:" in path.read_text()
    path.write_text("mine")
    assert ending(["trial", "init", str(path)]) == 2
    assert path.read_text() == "mine"
    assert ending(["trial", "run", str(path)]) == 2
    assert "key: value" in capsys.readouterr().err


def test_run_until_it_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        assert ending(["trial", "run", str(world.file)]) == 3
        printed = capsys.readouterr().out
        assert "JUDGE ONLY" in printed
        assert "captrial annotate serve" in printed
        world.vote(12)
        found = answer(capsys, ["trial", "run", str(world.file)])
        assert (found["complete"], found["requests"]) == (True, 0)
        run_captrial(["trial", "run", str(world.file)])
        assert "votes on 12 of 20 judged items" in capsys.readouterr().out
        assert json.loads((tmp_path / "trial" / "trial.json").read_text())["complete"]
