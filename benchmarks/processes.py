"""Processor seconds and memory of processes and all that they start, from /proc; our command line, watched so."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.measuring import environment
from studies.data_paths import ROOT


@contextmanager
def processor_seconds() -> Iterator[dict[str, float]]:
    """Processor seconds of this process, of what it started (by kind) and of everybody else, meanwhile."""
    spent: dict[str, float] = {}
    used: dict[int, tuple[str, float]] = {}
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(0.5):
            for pid in _below(os.getpid()):
                used[pid] = _usage(pid) or used.get(pid, ("", 0.0))

    everybody, own = machine_seconds(), time.process_time()
    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield spent
    finally:
        stop.set()
        thread.join()
        spent["driver"] = time.process_time() - own
        for kind, seconds in used.values():
            spent[kind] = spent.get(kind, 0.0) + seconds
        spent["others"] = machine_seconds() - everybody - sum(spent.values())


def machine_seconds() -> float:
    """Processor seconds of everything on this machine so far, idling aside."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children = [int(child) for child in task.read_text().split()]
            found += [*children, *(one for child in children for one in _below(child))]
    return found


def _usage(pid: int) -> tuple[str, float] | None:
    """What a process is, and its processor seconds; None where it is gone, or dead and not buried."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        used = seconds_of(pid)
    except OSError:
        return None
    if not line:
        return None
    kind = (
        "workers"
        if "MapWorker" in line or "spawn_main" in line
        else "raylet and gcs"
        if "/raylet" in line[:400] or "gcs_server" in line[:400]
        else "other processes of the engine"
    )
    return kind, used


def seconds_of(pid: int) -> float:
    """Processor seconds of a process so far, without what it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def command(line: Sequence[str]) -> tuple[float, float, str]:
    """Seconds, peak memory of all its processes (GB, private pages) and the output of a command of ours."""
    started, peak = time.perf_counter(), 0.0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "captrial", *line], stdout=output, env=environment(), cwd=ROOT
        )
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(0.2)
        if process.returncode:
            raise RuntimeError(f"captrial {' '.join(line)} ended with {process.returncode}")
        output.seek(0)
        return time.perf_counter() - started, peak, output.read()


def _memory(pid: int) -> float:
    """Resident memory of a process and all below it that is its own, in GB."""
    total = 0.0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = int(status.split("RssAnon:")[1].split()[0]) / 2**20
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return total
    return total + sum(_memory(int(child)) for child in children)
