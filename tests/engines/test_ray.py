"""The same jobs on a real Ray cluster of two worker processes: same outputs, whoever is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.engines import scoring
from captrial.engines.job import JobSpec
from captrial.engines.output import OutputFolder
from captrial.engines.running import make_engine, run
from captrial.errors import CaptrialError
from engines.test_exact import competition, same_scores
from engines.test_local import EXPECTED, NAMES, kill_the_driver_and_start_again, loud, parts, workers_at
from engines.toys import Shout, Unloadable

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours


def test_rows_and_errors_are_those_of_the_local_engine(tmp_path: Path, ray_address: str) -> None:
    """And one of the workers is killed (kill -9) in the middle: nothing is missing, nothing doubled."""
    names = [*NAMES[:5], "bad1", *NAMES[5:]]
    dying = {"died": str(tmp_path / "died"), "deadly": "row9", "log": str(tmp_path / "log")}
    outcome = run(JobSpec(Shout, dying, batch=3), parts(names), tmp_path / "ray", make_engine("ray", 2, ray_address))
    assert (tmp_path / "died").exists()
    assert len(workers_at(tmp_path / "log", "row9")) == 2  # the dead and the one in its place
    assert (outcome.rows, outcome.errors) == (24, 1)
    run(JobSpec(Shout, batch=3), parts(names), tmp_path / "local", make_engine("local", 1))
    folders = [OutputFolder(tmp_path / name) for name in ("ray", "local")]
    assert list(folders[0].rows()) == list(folders[1].rows())
    assert not list((tmp_path / "ray").glob(".part-*"))
    assert (
        run(JobSpec(Shout, dying, batch=3), parts(names), tmp_path / "ray", make_engine("ray", 2, ray_address)).skipped
        == 6
    )


def test_a_job_that_cannot_be_loaded_says_so(tmp_path: Path, ray_address: str) -> None:
    with pytest.raises(CaptrialError, match=r"^no such model: nonsense$"):
        run(JobSpec(Unloadable), parts(), tmp_path / "out", make_engine("ray", 2, ray_address))


def test_a_killed_driver_continues_where_it_was(
    tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    kill_the_driver_and_start_again(tmp_path, "ray", ray_address)
    assert loud(tmp_path / "out") == EXPECTED


def test_scores_and_selection_are_those_of_one_process(
    tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "SLICE", 16)
    same_scores(tmp_path, make_engine("ray", 2, ray_address), ["bleu", "cider"])
    contest = competition(tmp_path)
    line = ["compete", "select", str(contest.directory), "--k", "5", "--json"]
    done = CliRunner().invoke(app, [*line, "--engine", "ray", "--workers", "2", "--ray-address", ray_address])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, [*line, "--again"])
    assert json.loads(done.stdout)["pairs"] == json.loads(again.stdout)["pairs"]
