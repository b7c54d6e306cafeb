"""The local engine: processes on this machine, each with its own copy of the job.

Every worker has its own pipe to the driver and shares no lock or queue with another, so one that is killed loses only
the part it was working on; a new worker starts that part again.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from threading import Thread

from captrial.engines.engine import ATTEMPTS, PartDone, Parts, Worker, share_cores, threads_each
from captrial.engines.job import JobSpec, explain
from captrial.engines.shards import Task
from captrial.errors import CaptrialError

PATIENCE = 10.0  # seconds that an idle worker has to exit


class LocalEngine:
    """Worker processes on this machine; one worker means this very process."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Parts:
        """Run every task; a worker that is killed is replaced, and its part started again."""
        if self.workers <= 1:
            yield from map(Worker(spec).do, tasks)
            return
        pool = _WorkerPool(spec, tasks, min(self.workers, len(tasks)))
        try:
            while pool.workers:
                yield from pool.receive()
        finally:
            pool.stop()


class _WorkerPool:
    """All worker processes, and the tasks that still wait for one."""

    def __init__(self, spec: JobSpec, tasks: Sequence[Task], workers: int) -> None:
        self.spec, self.waiting = spec, deque(tasks)
        self.workers = [_WorkerProcess(workers) for _ in range(workers)]
        self._most = ATTEMPTS * workers  # a deadly part for each to give up; if the next ones are too, all may be
        self._deaths = 0  # since a part was done

    def receive(self) -> Iterator[PartDone]:
        """Reports of the next workers that have one; each worker gets another task first."""
        reporting = wait_for([worker.pipe for worker in self.workers])
        for worker in [worker for worker in self.workers if worker.pipe in reporting]:
            done = None
            try:
                done = worker.receive(self.spec)
                self._deaths = 0 if done and not done.failure else self._deaths
                self._assign(worker)
            except (EOFError, OSError):  # its pipe ends with it
                self._replace(worker)
            if done is not None:
                yield done

    def _assign(self, worker: _WorkerProcess) -> None:
        if self.waiting:
            worker.send(self.waiting.popleft())
        else:
            self.workers.remove(worker)
            worker.stop()

    def _replace(self, worker: _WorkerProcess) -> None:
        self.workers.remove(worker)
        worker.stop()
        self._deaths += 1
        if self._deaths > self._most:
            raise CaptrialError(f"{self._deaths} workers died and no part was done meanwhile; is there enough memory?")
        if worker.task is not None:
            self.waiting.appendleft(worker.task)  # first, not last: a part that kills its worker is found out sooner
        if self.waiting:
            self.workers.append(_WorkerProcess(worker.workers))

    def stop(self) -> None:
        """Stop the workers that are left: everything is done, or the run was ended."""
        for worker in self.workers:
            worker.stop()


class _WorkerProcess:
    """One worker, seen from the driver. It reports first: nothing is sent before it is there to read it."""

    task: Task | None = None  # that it is working on

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")  # forking a process with threads in it may hang
        self.pipe, theirs = context.Pipe()
        self.workers = workers
        self.process = context.Process(target=_serve, args=(theirs, threads_each(workers)), daemon=True)
        self.process.start()
        theirs.close()  # the worker has the only copy now

    def receive(self, spec: JobSpec) -> PartDone | None:
        """Its report; None from a new worker, which is then sent the job."""
        done: PartDone | None = self.pipe.recv()
        self.task = None
        if done is None:
            self.pipe.send(spec)
        return done

    def send(self, task: Task) -> None:
        """Send it a part."""
        self.task = task
        self.pipe.send(task)

    def stop(self) -> None:
        """Close the pipe, which ends an idle worker; a busy one is killed, its part has no file yet."""
        self.pipe.close()
        if self.task is None:
            self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        self.process.close()


def _serve(pipe: Connection, threads: int) -> None:
    """Main function of a worker process: report, receive the job, then run part after part until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the driver ends its workers
    Thread(target=_end_with_driver, daemon=True).start()
    share_cores(threads)
    with suppress(EOFError, OSError), pipe:
        pipe.send(None)
        do = _load_job(pipe.recv_bytes())
        while True:
            pipe.send(do(pipe.recv()))


def _load_job(job: bytes) -> Callable[[Task], PartDone]:
    """Return what runs a part; unpickling imports the job's modules, and where one is missing every part fails."""
    try:
        return Worker(pickle.loads(job)).do
    except Exception as error:
        why = f"a worker cannot read the job: {explain(error)}"
        return lambda task: PartDone(task.number, failure=why, hopeless=True)


def _end_with_driver() -> None:
    """Exit when the driver is killed; otherwise a worker would finish its part in vain."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    wait_for([driver.sentinel])
    os._exit(1)
