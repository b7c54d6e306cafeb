"""Runs on processes of this machine: complete, in order, resumable, whoever is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from captrial.engines.job import JobSpec
from captrial.engines.local import LocalEngine
from captrial.engines.output import OutputFolder
from captrial.engines.running import make_engine, run
from captrial.engines.sources import Part, entry_parts
from captrial.errors import CaptrialError, InputError, MismatchError
from engines.toys import Shout, Unloadable

NAMES = [f"row{number}" for number in range(23)]


def parts(names: list[str] = NAMES, size: int = 4) -> list[Part]:
    return entry_parts("items", ((name, f"said {name}") for name in names), size)


def loud(out: Path) -> list[tuple[str, str | None]]:
    return [(row["id"], row["loud"]) for row in OutputFolder(out).rows()]


EXPECTED = [(name, f"SAID {name.upper()}") for name in NAMES]


def test_rows_come_back_in_order_and_finished_parts_are_skipped(tmp_path: Path) -> None:
    spec = JobSpec(Shout, {"log": str(tmp_path / "log")}, batch=3)
    first = run(spec, parts(), tmp_path / "out", LocalEngine())
    assert (first.parts, first.skipped, first.rows, first.errors) == (6, 0, 23, 0)
    assert loud(tmp_path / "out") == EXPECTED
    (tmp_path / "out" / "part-000002.parquet").unlink()
    again = run(spec, parts(), tmp_path / "out", LocalEngine())
    assert (again.skipped, again.rows) == (5, 23)
    seen = Counter(line.split()[0] for line in (tmp_path / "log").read_text().splitlines())
    assert {name for name, times in seen.items() if times == 2} == set(NAMES[8:12])
    assert loud(tmp_path / "out") == EXPECTED


def test_only_bad_rows_carry_an_error(tmp_path: Path) -> None:
    names = [*NAMES[:5], "bad1", *NAMES[5:], "bad2"]
    outcome = run(JobSpec(Shout, batch=8), parts(names, 25), tmp_path / "out", LocalEngine())
    assert (outcome.rows, outcome.errors) == (25, 2)
    rows = list(OutputFolder(tmp_path / "out").rows())
    assert [row["id"] for row in rows] == names
    assert {row["id"]: row["error"] for row in rows if row["error"]} == {
        "bad1": "bad1 is bad",
        "bad2": "bad2 is bad",
    }
    assert run(JobSpec(Shout, batch=8), parts(names, 25), tmp_path / "out", LocalEngine()).errors == 2


def test_what_is_no_rows_fault_fails_the_part_and_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(CaptrialError, match=r"1 of 7 parts.*part 6: the endpoint is gone.*again"):
        run(JobSpec(Shout), parts([*NAMES, "last", "gone"]), tmp_path / "out", LocalEngine())
    assert len(OutputFolder(tmp_path / "out").shards()) == 6


def test_another_job_or_input_is_refused(tmp_path: Path) -> None:
    run(JobSpec(Shout), parts(), tmp_path / "out", LocalEngine())
    with pytest.raises(MismatchError, match="another job or input"):
        run(JobSpec(Shout), parts(NAMES[1:]), tmp_path / "out", LocalEngine())
    with pytest.raises(MismatchError):
        run(JobSpec(Shout, {"pause": 0.5}), parts(), tmp_path / "out", LocalEngine())
    with pytest.raises(InputError, match="there are local and ray"):
        make_engine("spark")


@pytest.mark.slow
def test_a_killed_worker_costs_nothing_but_time(tmp_path: Path) -> None:
    """kill -9 in the middle of a part: the run completes, nothing is missing, nothing is doubled."""
    arguments = {"died": str(tmp_path / "died"), "deadly": "row9", "log": str(tmp_path / "log")}
    outcome = run(JobSpec(Shout, arguments, batch=2), parts(), tmp_path / "out", LocalEngine(2))
    assert (tmp_path / "died").exists()
    assert (outcome.rows, outcome.errors) == (23, 0)
    assert loud(tmp_path / "out") == EXPECTED
    workers = {line.split()[1] for line in (tmp_path / "log").read_text().splitlines()}
    assert len(workers) >= 3  # two, and one that took the place of the dead
    assert not list((tmp_path / "out").glob(".part-*"))


@pytest.mark.full
def test_a_part_that_always_kills_is_given_up_and_the_others_done(tmp_path: Path) -> None:
    with pytest.raises(CaptrialError, match=r"1 of 6 parts could not be done.*worker died 3 times"):
        run(JobSpec(Shout, {"deadly": "row0"}), parts(NAMES[:12], 2), tmp_path / "out", LocalEngine(2))
    assert {row[0] for row in loud(tmp_path / "out")} == set(NAMES[2:12])
    assert not list((tmp_path / "out").glob(".part-*.tries"))


def test_a_job_that_cannot_be_loaded_ends_the_run_with_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(CaptrialError, match="no such model: nonsense"):
        run(JobSpec(Unloadable), parts(), tmp_path / "out", LocalEngine())


DRIVER = """
import sys
from captrial.engines.job import JobSpec
from captrial.engines.running import make_engine, run
from engines.test_local import parts
from engines.toys import Shout

if __name__ == "__main__":
    out, log, engine, address = sys.argv[1:]
    spec = JobSpec(Shout, {"log": log, "pause": 0.15}, batch=2)
    print(run(spec, parts(), out, make_engine(engine, 2, address or None)))
"""


def kill_the_driver_and_start_again(tmp_path: Path, engine: str, address: str = "") -> None:
    """Start a driver, kill it once two shards are there, start it again; then look at who did what."""
    script, out, log = tmp_path / "driver.py", tmp_path / "out", tmp_path / "log"
    script.write_text(DRIVER)
    line = [sys.executable, str(script), str(out), str(log), engine, address]
    driver = subprocess.Popen(line)
    patience = time.monotonic() + 300
    while len(list(out.glob("part-*.parquet"))) < 2:
        assert driver.poll() is None, "the driver was done before it could be killed"
        assert time.monotonic() < patience
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    time.sleep(1)  # workers end with their driver
    finished = {path.name: path.stat().st_mtime_ns for path in OutputFolder(out).shards()}
    assert 2 <= len(finished) < 6
    time.sleep(1)
    assert len(OutputFolder(out).shards()) == len(finished), "workers go on without their driver"
    before = len(log.read_text().splitlines())
    subprocess.run(line, check=True, timeout=300)
    assert loud(out) == EXPECTED
    assert all((out / name).stat().st_mtime_ns == then for name, then in finished.items())
    unfinished = sum(
        min(23, 4 * number + 4) - 4 * number for number in range(6) if f"part-{number:06}.parquet" not in finished
    )
    assert len(log.read_text().splitlines()) - before == unfinished


@pytest.mark.slow
def test_a_killed_driver_continues_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    kill_the_driver_and_start_again(tmp_path, "local")
