"""Runs on processes of this machine: complete, in order, resumable, whoever is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.progress import Progress

from captrial.engines import engine, make_engine, run
from captrial.engines.inputs import InputPart, entry_parts
from captrial.engines.job import JobSpec
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder
from captrial.errors import CaptrialError, InputError, MismatchError
from captrial.progress import progress_bar
from engines.example_jobs import Counted, DeadlyToRead, Odd, Shout, Unloadable, Unreadable

NAMES = [f"row{number}" for number in range(23)]


def parts(names: list[str] = NAMES, size: int = 4) -> list[InputPart]:
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
    assert times_begun(tmp_path / "log") == {name: 1 + (name in NAMES[8:12]) for name in NAMES}
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


def test_a_run_in_which_one_part_after_the_other_fails_ends(tmp_path: Path) -> None:
    """An endpoint that is gone is not asked about a million images, some seconds each."""
    log = tmp_path / "log"
    names = ["row0", "gone", *(f"row{number}" for number in range(1, 20)), *(f"gone{number}" for number in range(50))]
    with pytest.raises(CaptrialError, match=r"17 of 71 parts.*part 1: the endpoint is gone; 16 in a row failed"):
        run(JobSpec(Shout, {"log": str(log)}), parts(names, 1), tmp_path / "out", LocalEngine())
    assert len(OutputFolder(tmp_path / "out").shards()) == 20
    assert len(times_begun(log)) == 20 + 17


def test_an_answer_that_cannot_be_written_is_an_error_of_its_row(tmp_path: Path) -> None:
    outcome = run(JobSpec(Odd, batch=4), parts(NAMES[:6]), tmp_path / "out", LocalEngine())
    assert (outcome.rows, outcome.errors) == (6, 2)
    rows = list(OutputFolder(tmp_path / "out").rows())
    assert [row["id"] for row in rows] == NAMES[:6]
    assert [row["loud"] for row in rows] == ["SAID ROW0", None, None, *(f"SAID ROW{number}" for number in (3, 4, 5))]
    assert all("cannot be written" in row["error"] for row in rows[1:3])


def test_another_job_or_input_is_refused(tmp_path: Path) -> None:
    run(JobSpec(Shout), parts(), tmp_path / "out", LocalEngine())
    with pytest.raises(MismatchError, match="another job or input"):
        run(JobSpec(Shout), parts(NAMES[1:]), tmp_path / "out", LocalEngine())
    with pytest.raises(MismatchError):
        run(JobSpec(Shout, {"weight": "x"}), parts(), tmp_path / "out", LocalEngine())
    with pytest.raises(MismatchError, match=r"another model\)"):
        run(JobSpec(Shout, stamps={"model": "longer"}), parts(), tmp_path / "out", LocalEngine())
    with pytest.raises(InputError, match="choose local or ray"):
        make_engine("spark")


def times_begun(log: Path) -> Counter[str]:
    """How often each row was begun, from the log of `Shout`."""
    return Counter(line.split()[0] for line in log.read_text().splitlines())


def workers_at(log: Path, name: str = "") -> set[int]:
    """The processes that began this row, or any."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return {int(pid) for row, pid in lines if row == name or not name}


@pytest.mark.slow
def test_a_killed_worker_costs_its_part_and_nothing_else(tmp_path: Path) -> None:
    """kill -9 in the middle of a part: the run completes, nothing is missing, nothing is doubled."""
    log, died = tmp_path / "log", tmp_path / "died"
    arguments = {"died": str(died), "deadly": "row9", "log": str(log)}
    outcome = run(JobSpec(Shout, arguments, batch=2), parts(), tmp_path / "out", LocalEngine(2))
    assert died.exists()
    assert (outcome.rows, outcome.errors) == (23, 0)
    assert loud(tmp_path / "out") == EXPECTED
    assert len(workers_at(log, "row9")) == 2  # the dead and the one in its place
    assert times_begun(log) == {name: 1 + (name in ("row8", "row9")) for name in NAMES}  # a batch of two was repeated
    assert not list((tmp_path / "out").glob(".part-*"))


@pytest.mark.slow
def test_a_worker_that_dies_as_it_starts_is_replaced(tmp_path: Path) -> None:
    """With a job too large for a pipe: a driver that writes to a worker before it reads would wait for ever."""
    weight, died = "x" * 300_000, tmp_path / "died"
    once = JobSpec(Shout, {"weight": weight, "died": DeadlyToRead(str(died))})
    assert run(once, parts(), tmp_path / "once", LocalEngine(2)).rows == 23
    assert died.exists()


@pytest.mark.full
def test_workers_that_always_die_as_they_start_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(CaptrialError, match="workers died and no part was done"):
        run(JobSpec(Shout, {"died": DeadlyToRead()}), parts(), tmp_path / "always", LocalEngine(2))


@pytest.mark.full
def test_where_every_part_kills_the_run_ends_before_all_are_tried(tmp_path: Path) -> None:
    with pytest.raises(CaptrialError, match="7 workers died and no part was done"):
        run(JobSpec(Shout, {"deadly": "row0"}), parts(["row0"] * 9, 1), tmp_path / "out", LocalEngine(2))


@pytest.mark.slow
def test_a_job_that_workers_cannot_read_is_told_not_blamed_on_memory(tmp_path: Path) -> None:
    with pytest.raises(CaptrialError, match="cannot read the job: OSError: no such plugin"):
        run(JobSpec(Shout, {"weight": Unreadable()}), parts(), tmp_path / "out", LocalEngine(2))


def test_batches_are_made_ready_one_ahead_and_no_further(tmp_path: Path) -> None:
    """What keeps memory flat: one batch at work, one ready, however many there are."""
    Counted.ahead, Counted.ready, Counted.done = [], 0, 0
    run(JobSpec(Counted, batch=2), parts(size=23), tmp_path / "out", LocalEngine())
    assert Counted.ready == Counted.done == 12
    assert max(Counted.ahead) == 2


@pytest.mark.slow
def test_progress_counts_the_rows_of_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Progress] = []

    @contextmanager
    def seen() -> Iterator[Progress]:
        with progress_bar(hidden=True) as bar:
            bars.append(bar)
            yield bar

    monkeypatch.setattr(engine, "progress_bar", seen)
    run(JobSpec(Shout), parts(), tmp_path / "out", LocalEngine(2))
    (tmp_path / "out" / "part-000002.parquet").unlink()
    run(JobSpec(Shout), parts(), tmp_path / "out", LocalEngine())
    first, again = (bar.tasks[0] for bar in bars)
    assert (first.completed, first.total, first.time_remaining) == (23, 23, 0)
    assert (again.completed, again.total) == (23, 23)
    assert len(again._progress) == 1  # the rate is that of this run: rows of an earlier one do not count


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
from captrial.engines import make_engine, run
from engines.test_local import HELD, parts
from engines.example_jobs import Shout

if __name__ == "__main__":
    out, log, gate, engine, address = sys.argv[1:]
    spec = JobSpec(Shout, {"log": log, "gate": gate, "held": HELD}, batch=2)
    run(spec, parts(), out, make_engine(engine, 2, address or None))
"""
HELD = NAMES[12:]  # the fourth part and all after it


def kill_the_driver_and_start_again(tmp_path: Path, engine: str, address: str = "") -> None:
    """Start a driver, kill it when both workers are held in a part, start it again; then look at who did what.

    Which parts are finished by then is the engine's affair: Ray lets an actor run its tasks out of order.
    """
    script, out, log, gate = (tmp_path / name for name in ("driver.py", "out", "log", "gate"))
    script.write_text(DRIVER)
    log.touch()
    line = [sys.executable, str(script), str(out), str(log), str(gate), engine, address]
    with subprocess.Popen(line) as driver:
        try:
            wait_until(lambda: len(workers_held(log)) == 2, driver)
        finally:
            driver.kill()
    wait_until(lambda: not any(map(is_alive, workers_at(log))))  # workers end with their driver
    finished = {path.name: path.stat().st_mtime_ns for path in OutputFolder(out).shards()}
    done = [number for number in range(6) if f"part-{number:06}.parquet" in finished]
    assert done
    assert set(done) <= {0, 1, 2}
    gate.touch()
    log.unlink()
    subprocess.run(line, check=True, timeout=300)
    assert loud(out) == EXPECTED
    assert all((out / name).stat().st_mtime_ns == then for name, then in finished.items())
    assert times_begun(log) == {name: 1 for number, name in enumerate(NAMES) if number // 4 not in done}


def workers_held(log: Path) -> set[int]:
    """The processes whose last row is one that waits at the gate."""
    last = {int(pid): row for row, pid in map(str.split, log.read_text().splitlines())}
    return {pid for pid, row in last.items() if row in HELD}


def wait_until(happened: Callable[[], bool], driver: subprocess.Popen[bytes] | None = None) -> None:
    """Until it happens; four minutes, for busy machines."""
    patience = time.monotonic() + 240
    while not happened():
        assert driver is None or driver.poll() is None, "the driver ended by itself"
        assert time.monotonic() < patience
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_a_killed_driver_continues_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    kill_the_driver_and_start_again(tmp_path, "local")


def test_workers_share_the_cores_also_where_the_system_cannot_tell_which_are_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert [engine.threads_each(workers) for workers in (1, 3, 9)] == [8, 2, 1]
