"""The local engine: parts done by processes of this machine, each with its own copy of the job.

Every worker has a pipe of its own to the driver and shares no lock or queue with another, so one that is killed takes
nothing with it but the part that it was at; a new worker begins that part again.
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

from captrial.engines.engine import (
    ATTEMPTS,
    PartDone,
    Parts,
    Worker,
    share_cores,
    threads_each,
)
from captrial.engines.job import JobSpec, explain
from captrial.engines.shards import Task
from captrial.errors import CaptrialError

PATIENCE = 10.0  # seconds that an idle worker has to leave


class LocalEngine:
    """Processes here; one worker means this very process."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Parts:
        """Do every task; when a worker is killed another takes its place and its part."""
        if self.workers <= 1:
            yield from map(Worker(spec).do, tasks)
            return
        crew = _Crew(spec, tasks, min(self.workers, len(tasks)))
        try:
            while crew.hands:
                yield from crew.hear()
        finally:
            crew.end()


class _Crew:
    """All workers, and what is still to be given to them."""

    def __init__(self, spec: JobSpec, tasks: Sequence[Task], workers: int) -> None:
        self.spec, self.waiting = spec, deque(tasks)
        self.hands = [_Hand(workers) for _ in range(workers)]
        self._most = ATTEMPTS * workers  # a deadly part for each to give up; if the next ones are too, all may be
        self._deaths = 0  # since a part was done

    def hear(self) -> Iterator[PartDone]:
        """What was done by the next workers that speak; each is given something else to do first."""
        speaking = wait_for([hand.pipe for hand in self.hands])
        for hand in [hand for hand in self.hands if hand.pipe in speaking]:
            done = None
            try:
                done = hand.hear(self.spec)
                self._deaths = 0 if done and not done.failure else self._deaths
                self._employ(hand)
            except (EOFError, OSError):  # its pipe ends with it
                self._replace(hand)
            if done is not None:
                yield done

    def _employ(self, hand: _Hand) -> None:
        if self.waiting:
            hand.give(self.waiting.popleft())
        else:
            self.hands.remove(hand)
            hand.end()

    def _replace(self, hand: _Hand) -> None:
        self.hands.remove(hand)
        hand.end()
        self._deaths += 1
        if self._deaths > self._most:
            raise CaptrialError(f"{self._deaths} workers died and no part was done meanwhile; is there enough memory?")
        if hand.task is not None:
            self.waiting.appendleft(hand.task)  # at once, not last: a part that kills is found out sooner
        if self.waiting:
            self.hands.append(_Hand(hand.workers))

    def end(self) -> None:
        """Stop whoever is still at work: everything is done, or nobody wants to know."""
        for hand in self.hands:
            hand.end()


class _Hand:
    """One worker, seen from the driver. It speaks first: nothing is sent before somebody is there to read it."""

    task: Task | None = None  # what it is at

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")  # forking a process with threads in it may hang
        self.pipe, theirs = context.Pipe()
        self.workers = workers
        self.process = context.Process(target=_serve, args=(theirs, threads_each(workers)), daemon=True)
        self.process.start()
        theirs.close()  # the worker has the only copy now

    def hear(self, spec: JobSpec) -> PartDone | None:
        """What it has done; nothing where it is new, then it is told the job."""
        done: PartDone | None = self.pipe.recv()
        self.task = None
        if done is None:
            self.pipe.send(spec)
        return done

    def give(self, task: Task) -> None:
        """Send it a part."""
        self.task = task
        self.pipe.send(task)

    def end(self) -> None:
        """An idle worker leaves when its pipe closes, one at work is stopped: what it was at is no file yet."""
        self.pipe.close()
        if self.task is None:
            self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        self.process.close()


def _serve(pipe: Connection, threads: int) -> None:
    """The life of a worker: say hello, learn the job, then do part after part until the driver lets go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the driver ends its workers
    Thread(target=_end_with_driver, daemon=True).start()
    share_cores(threads)
    with suppress(EOFError, OSError), pipe:
        pipe.send(None)
        do = _learn(pipe.recv_bytes())
        while True:
            pipe.send(do(pipe.recv()))


def _learn(job: bytes) -> Callable[[Task], PartDone]:
    """What to do with a part; unpickling imports the job's modules, and where one is missing every part says so."""
    try:
        return Worker(pickle.loads(job)).do
    except Exception as error:
        why = f"a worker cannot read the job: {explain(error)}"
        return lambda task: PartDone(task.number, failure=why, hopeless=True)


def _end_with_driver() -> None:
    """A driver that is killed tells nobody; without this a worker would finish its part for no one."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    wait_for([driver.sentinel])
    os._exit(1)
