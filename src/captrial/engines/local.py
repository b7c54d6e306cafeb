"""The local engine: parts done by processes of this machine, each with its own copy of the job."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from captrial.engines.job import Job, JobSpec
from captrial.engines.output import do_part
from captrial.engines.running import PartDone
from captrial.engines.sources import Part

ATTEMPTS = 3  # a part during which a worker died so often is given up
Task = tuple[int, Part, Path]


class LocalEngine:
    """Processes here; one worker means this very process."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Iterator[PartDone]:
        """Do every task; when a worker is killed the pool is started again and unfinished parts are repeated."""
        if self.workers <= 1:
            job = spec.make() if tasks else None
            for task in tasks:
                assert job is not None
                yield attempt(job, spec, task)
            return
        waiting, deaths = {task[0]: task for task in tasks}, Counter[int]()
        while waiting:
            for done in self._until_a_death(spec, list(waiting.values()), deaths):
                del waiting[done.number]
                yield done
            for number in [number for number in waiting if deaths[number] >= ATTEMPTS]:
                del waiting[number]
                yield PartDone(number, failure=f"its worker died {ATTEMPTS} times")

    def _until_a_death(self, spec: JobSpec, tasks: list[Task], deaths: Counter[int]) -> Iterator[PartDone]:
        """Parts as they are done; ends early, with the parts in work counted, when a worker is killed."""
        context = multiprocessing.get_context("spawn")
        workers = min(self.workers, len(tasks))
        with ProcessPoolExecutor(workers, context, _start, (spec, workers)) as pool:
            queue = iter(tasks)
            running: dict[Future[PartDone], int] = {}
            for task in _take(queue, workers + 1):  # one in reserve keeps workers busy; no more, so memory stays flat
                running[pool.submit(_work, task)] = task[0]
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                try:
                    for future in finished:
                        done = future.result()
                        del running[future]
                        yield done
                        for task in _take(queue, 1):
                            running[pool.submit(_work, task)] = task[0]
                except BrokenProcessPool:
                    deaths.update(running.values())
                    return


def attempt(job: Job, spec: JobSpec, task: Task) -> PartDone:
    """Do one part; what goes wrong with the part itself is told, not raised."""
    number, part, shard = task
    try:
        return PartDone(number, *do_part(job, spec, part, shard))
    except Exception as error:
        return PartDone(number, failure=f"{type(error).__name__}: {error}")


def _take(tasks: Iterator[Task], count: int) -> list[Task]:
    return [task for _, task in zip(range(count), tasks, strict=False)]


_worker: tuple[Job, JobSpec] | None = None


def _start(spec: JobSpec, workers: int) -> None:
    """In a new worker: share the cores fairly, then load the job."""
    global _worker
    threads = max(1, (os.cpu_count() or 1) // workers)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    _worker = (spec.make(), spec)


def _work(task: Task) -> PartDone:
    assert _worker is not None
    return attempt(*_worker, task)
