"""The local engine: parts done by processes of this machine, each with its own copy of the job."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for
from threading import Thread

from captrial.engines.job import JobSpec
from captrial.engines.output import Task
from captrial.engines.running import PartDone, Worker

ATTEMPTS = 3  # a part during which a worker died so often is given up


class LocalEngine:
    """Processes here; one worker means this very process."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Iterator[PartDone]:
        """Do every task; when a worker is killed the pool is started again and unfinished parts are repeated."""
        if self.workers <= 1:
            yield from map(Worker(spec).do, tasks)
            return
        waiting, deaths = {task.number: task for task in tasks}, Counter[int]()
        while waiting:
            for done in self._until_a_death(spec, list(waiting.values()), deaths):
                del waiting[done.number]
                yield done
            for number in [number for number in waiting if deaths[number] >= ATTEMPTS]:
                del waiting[number]
                yield PartDone(number, failure=f"its worker died {ATTEMPTS} times; is there enough memory?")

    def _until_a_death(self, spec: JobSpec, tasks: list[Task], deaths: Counter[int]) -> Iterator[PartDone]:
        """Parts as they are done; ends early, with the parts in work counted, when a worker is killed."""
        workers, queue = min(self.workers, len(tasks)), iter(tasks)
        running: dict[Future[PartDone], int] = {}
        context = multiprocessing.get_context("spawn")  # forking a process with threads in it may hang
        with ProcessPoolExecutor(workers, context, _start, (spec, workers)) as pool:
            try:
                for task in islice(queue, workers + 1):  # one in reserve keeps workers busy
                    running[pool.submit(_work, task)] = task.number
                while running:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        done = future.result()
                        del running[future]
                        yield done
                        for task in islice(queue, 1):
                            running[pool.submit(_work, task)] = task.number
            except BrokenProcessPool:
                deaths.update(running.values())
            except GeneratorExit:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


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
