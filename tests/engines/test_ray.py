"""The same jobs on a real Ray cluster of two worker processes: same outputs, whoever is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.engines import make_engine, run
from captrial.engines.job import JobSpec
from captrial.engines.jobs import score
from captrial.engines.shards import OutputFolder
from captrial.errors import CaptrialError
from captrial.toyworld import ToyWorldSettings, write_toyworld
from captrial.vision.features.feature_store import FeatureStore
from engines.example_jobs import Shout, Unloadable
from engines.jobs.test_score import same_scores
from engines.jobs.test_select import competition
from engines.test_local import EXPECTED, NAMES, kill_the_driver_and_start_again, loud, parts, workers_at

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours


def test_rows_and_errors_are_those_of_the_local_engine(
    tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of the workers is killed (kill -9) in the middle: nothing is missing, nothing doubled."""
    monkeypatch.chdir(tmp_path)  # where the cluster does not stand: relative paths are the driver's
    names = [*NAMES[:5], "bad1", *NAMES[5:]]
    dying = {"died": "died", "deadly": "row9", "log": "log"}
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


@pytest.mark.full
def test_a_job_that_cannot_be_loaded_says_so(tmp_path: Path, ray_address: str) -> None:
    with pytest.raises(CaptrialError, match=r"^no such model: nonsense$"):
        run(JobSpec(Unloadable), parts(), tmp_path / "out", make_engine("ray", 2, ray_address))


def test_a_killed_driver_continues_where_it_was(
    tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    kill_the_driver_and_start_again(tmp_path, "ray", ray_address)
    assert loud(tmp_path / "out") == EXPECTED


def test_selection_is_that_of_one_process(tmp_path: Path, ray_address: str) -> None:
    contest = competition(tmp_path)
    line = ["compete", "select", str(contest.directory), "--k", "5", "--json"]
    done = CliRunner().invoke(app, [*line, "--engine", "ray", "--workers", "2", "--ray-address", ray_address])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, [*line, "--again"])
    assert json.loads(done.stdout)["pairs"] == json.loads(again.stdout)["pairs"]


@pytest.mark.full
def test_scores_are_those_of_one_process(tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "SLICE", 16)
    same_scores(tmp_path, make_engine("ray", 2, ray_address), ["bleu", "cider"])


@pytest.mark.full
@pytest.mark.parametrize("verb", ["caption", "features"])
def test_verbs_write_what_they_write_locally(tmp_path: Path, ray_address: str, verb: str) -> None:
    """By the captioner and the backbone that come with the package; `ground`: tests/cli/test_ground.py."""
    write_toyworld(tmp_path / "world", ToyWorldSettings(12, size=64))
    source = str(tmp_path / "world" / "images" if verb == "caption" else tmp_path / "world")
    for name, engine in (("local", ["--workers", "1"]), ("ray", ["--engine", "ray", "--ray-address", ray_address])):
        done = CliRunner().invoke(app, [verb, source, "--out", str(tmp_path / name), *engine, "--json"])
        assert done.exit_code == 0, done.output
    if verb == "caption":
        rows = [list(OutputFolder(tmp_path / name).rows()) for name in ("local", "ray")]
        assert rows[0] == rows[1]
        assert len(rows[0]) == 12
    else:
        stores = [FeatureStore(tmp_path / name) for name in ("local", "ray")]
        assert list(stores[0]) == list(stores[1])
        first, second = (store.get(list(store)).elements for store in stores)
        np.testing.assert_allclose(first, second, rtol=2e-3, atol=1e-3)  # float16, other batches
