"""Work that takes seconds, one at a time, off the event loop; whoever asks sees how far it is and what is ready."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from captrial.errors import CaptrialError, MissingExtraError, StateError

KEPT = 16  # finished jobs whose results can still be asked for
WAITING = 8  # jobs that may stand in line

State = Literal["waiting", "working", "done", "failed", "cancelled"]


class CancelledError(Exception):
    """Nobody wants the result any more."""


@dataclass
class Job:
    """One piece of work: it says what it is doing and hands over its results as they become ready."""

    number: int
    total: int  # steps
    state: State = "waiting"
    step: str = "waiting for what was asked before"
    done: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    unwanted: threading.Event = field(default_factory=threading.Event)

    def begin(self, step: str) -> None:
        """Say what is done next; ends the job here if nobody wants it any more."""
        if self.unwanted.is_set():
            raise CancelledError
        if self.state == "working":
            self.done += 1
        self.state, self.step = "working", step

    def hand_over(self, part: dict[str, Any]) -> None:
        """A result that can be shown already."""
        self.parts.append(part)

    def look(self, seen: int = 0) -> dict[str, Any]:
        """What a page shows of it, with the results after the first `seen`."""
        facts = {"number": self.number, "state": self.state, "step": self.step, "done": self.done}
        # the state is read before the parts: a job that is done has handed over everything
        return {**facts, "total": self.total, "error": self.error, "parts": self.parts[seen:]}


Work = Callable[[Job], None]


class Jobs:
    """A line of jobs and the one thread that does them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "studio")
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()

    def add(self, work: Work, total: int) -> Job:
        """Put work at the end of the line."""
        with self._lock:
            if sum(job.state == "waiting" for job in self._jobs.values()) >= WAITING:
                raise StateError("too much is waiting already; try again in a moment")
            job = Job(next(self._numbers), total)
            self._jobs[job.number] = job
            over = [number for number, old in self._jobs.items() if old.state not in ("waiting", "working")]
            for number in over[: max(0, len(self._jobs) - KEPT)]:
                del self._jobs[number]
        self._thread.submit(_do, work, job)
        return job

    def get(self, number: int) -> Job | None:
        """A job, as long as it is remembered."""
        return self._jobs.get(number)

    def cancel(self, number: int) -> None:
        """Say that nobody wants a job's result any more; it ends before its next step."""
        job = self._jobs.get(number)
        if job is not None:
            job.unwanted.set()

    def close(self) -> None:
        """End what is running at its next step, and drop what waits."""
        for job in list(self._jobs.values()):
            job.unwanted.set()
        self._thread.shutdown(cancel_futures=True)


def _do(work: Work, job: Job) -> None:
    """Do it; whatever goes wrong is one sentence, and the thread goes on."""
    try:
        job.begin("beginning")
        work(job)
        job.done, job.state = job.total, "done"
    except CancelledError:
        job.state = "cancelled"
    except CaptrialError as error:
        job.error, job.state = str(error), "failed"
    except ModuleNotFoundError as error:
        job.error, job.state = str(MissingExtraError(f"this ({error.name} is not installed)", "models")), "failed"
    except Exception as error:  # a broken model, not enough memory: the studio stays
        job.error, job.state = f"this did not work ({type(error).__name__}: {error})", "failed"
