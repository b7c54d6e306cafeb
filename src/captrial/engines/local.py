"""The local engine: parts done by processes of this machine, each with its own copy of the job."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for
from threading import Thread

from captrial.engines.job import JobSpec
from captrial.engines.output import Task
from captrial.engines.running import ATTEMPTS, PartDone, Worker, times_begun
from captrial.errors import CaptrialError


class LocalEngine:
    """Processes here; one worker means this very process."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Iterator[PartDone]:
        """Do every task; when a worker is killed the pool is started again and unfinished parts are repeated."""
        if self.workers <= 1:
            yield from map(Worker(spec).do, tasks)
            return
        waiting, idle = {task.number: task for task in tasks}, 0
        while waiting:
            idle += 1
            for done in self._until_a_death(spec, *self._next(list(waiting.values()))):
                del waiting[done.number]
                idle = 0
                yield done
            if idle > ATTEMPTS:
                raise CaptrialError("workers die as soon as they start; is there enough memory?")

    def _next(self, tasks: list[Task]) -> tuple[list[Task], int]:
        """What to do now, and by how many: a death ends all workers, so what died twice is tried last and alone."""
        innocent = [task for task in tasks if times_begun(task) < ATTEMPTS - 1]
        return (innocent, min(self.workers, len(innocent))) if innocent else (tasks[:1], 1)

    def _until_a_death(self, spec: JobSpec, tasks: list[Task], workers: int) -> Iterator[PartDone]:
        """Parts as they are done; ends early when a worker is killed."""
        queue = iter(tasks)
        context = multiprocessing.get_context("spawn")  # forking a process with threads in it may hang
        pool = ProcessPoolExecutor(workers, context, _start, (spec, workers))
        try:
            running = {pool.submit(_work, task) for task in islice(queue, workers + 1)}  # one waits for a free worker
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    running.remove(future)
                    yield future.result()
                    running |= {pool.submit(_work, task) for task in islice(queue, 1)}
        except BrokenProcessPool:
            return
        finally:
            pool.shutdown(cancel_futures=True)  # without this one that could not be sent would be waited for


_worker: Worker | None = None


def _start(spec: JobSpec, workers: int) -> None:
    """In a new worker: share the cores fairly, and never outlive the driver."""
    global _worker
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // workers))
    Thread(target=_end_with_driver, daemon=True).start()
    _worker = Worker(spec)


def _end_with_driver() -> None:
    """A driver that is killed tells nobody; without this its workers would wait for it for ever."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    wait_for([driver.sentinel])
    os._exit(1)


def _work(task: Task) -> PartDone:
    assert _worker is not None
    return _worker.do(task)
