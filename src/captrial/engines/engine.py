"""`run(spec, parts, out, engine)`: run a job over all parts of an input, locally or on Ray."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from captrial.engines.inputs import InputPart
from captrial.engines.job import Job, JobSpec, explain
from captrial.engines.shards import OutputFolder, Task, counts, do_part
from captrial.errors import CaptrialError
from captrial.folders import lock_folder
from captrial.installation import usable_cpus
from captrial.progress import progress_bar

IN_A_ROW = 16  # parts that fail one after the other end a run: the endpoint is gone, the disk is full
ATTEMPTS = 3  # a part during which a worker died this often is given up


@dataclass(frozen=True, slots=True)
class PartDone:
    """A worker's report about a part; `failure` where the part could not be done at all."""

    number: int
    rows: int = 0
    errors: int = 0
    failure: str | None = None
    hopeless: bool = False  # no other part can be done either: the job could not even be loaded


@dataclass(frozen=True, slots=True)
class JobResult:
    """Summary of a finished run."""

    folder: Path
    parts: int
    skipped: int  # parts that were finished before
    rows: int
    errors: int  # rows that could not be done
    seconds: float


Parts = Generator[PartDone, None, None]  # closing it ends the workers


class Engine(Protocol):
    """Runs the parts of a job and reports each one as it is done, in any order."""

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Parts:
        """Run every task."""
        ...


def threads_each(workers: int) -> int:
    """Threads of each worker on this machine: OMP_NUM_THREADS where it is set, else an equal share of the cores."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() else max(1, usable_cpus() // workers)


def share_cores(threads: int) -> None:
    """Limit the threads of this worker, also where torch was imported before."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


def times_begun(task: Task) -> int:
    """How often a part was started and not finished because its worker was killed."""
    return _tries(task).stat().st_size if _tries(task).exists() else 0


def _tries(task: Task) -> Path:
    return task.shard.with_name(f".{task.shard.stem}.tries")  # a byte a try: outlives a worker that is killed


class Worker:
    """One process of a run: loads the job when the first part arrives, then runs part after part."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self._job: Job | None = None

    def do(self, task: Task) -> PartDone:
        """Run one part; errors are reported, not raised. A part that was started too often is given up."""
        try:
            begun, tries = times_begun(task), _tries(task)
            if begun >= ATTEMPTS:
                done = PartDone(task.number, failure=f"its worker died {begun} times; is there enough memory?")
            else:
                with tries.open("ab") as file:
                    file.write(b".")
                done = self._try(task)
            tries.unlink(missing_ok=True)
            return done
        except OSError as error:  # the folder cannot be written to
            return PartDone(task.number, failure=explain(error))

    def _try(self, task: Task) -> PartDone:
        try:
            self._job = self._job or self.spec.make()
        except Exception as error:
            return PartDone(task.number, failure=explain(error), hopeless=True)
        try:
            return PartDone(task.number, *do_part(self._job, self.spec, task))
        except Exception as error:
            return PartDone(task.number, failure=explain(error))


def run(spec: JobSpec, parts: Sequence[InputPart], out: Path | str, engine: Engine) -> JobResult:
    """Run the parts that are not finished; parts that fail as a whole raise an error after the others were tried."""
    folder = OutputFolder(out)
    with lock_folder(folder.folder, "output folder"):
        return _run(spec, parts, folder, engine)


def _run(spec: JobSpec, parts: Sequence[InputPart], folder: OutputFolder, engine: Engine) -> JobResult:
    started = time.monotonic()
    tasks = folder.prepare(spec, parts)
    failures, in_a_row = list[PartDone](), 0
    with progress_bar() as bar, closing(engine.do(spec, tasks)) as parts_done:
        sizes = [part.row_count for part in parts]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        left = sum(task.part.row_count or 0 for task in tasks)
        bar_task = bar.add_task(spec.job.title, total=total, completed=0 if total is None else total - left)
        for done in parts_done:
            if done.hopeless:
                raise CaptrialError(str(done.failure))
            failures += [done] * bool(done.failure)
            in_a_row = in_a_row + 1 if done.failure else 0
            if in_a_row == IN_A_ROW:
                break
            bar.advance(bar_task, done.rows)
    if failures:
        others = "the others are finished" if in_a_row < IN_A_ROW else f"{IN_A_ROW} in a row failed, the run ends here"
        raise CaptrialError(
            f"{len(failures)} of {len(parts)} parts could not be done, such as part {failures[0].number}: "
            f"{failures[0].failure}; {others}: run the same command again to retry"
        )
    folder.sweep()
    totals = [counts(folder.shard(number)) for number in range(len(parts))]
    rows, errors = (sum(column) for column in zip(*totals, strict=True)) if totals else (0, 0)
    return JobResult(folder.folder, len(parts), len(parts) - len(tasks), rows, errors, time.monotonic() - started)
