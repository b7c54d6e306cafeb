"""Tasks that take seconds, run one at a time outside the event loop, with their progress and partial results."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from captrial.errors import CaptrialError, MissingExtraError, StateError

MAX_FINISHED = 16  # tasks whose results are kept
MAX_WAITING = 8  # tasks

TaskState = Literal["waiting", "working", "done", "failed", "cancelled"]


class TaskCancelledError(Exception):
    """The task was cancelled."""


@dataclass
class StudioTask:
    """A task that reports its steps, and its results as they become ready."""

    number: int
    total: int  # steps
    state: TaskState = "waiting"
    step: str = "waiting for earlier tasks"
    done: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def begin(self, step: str) -> None:
        """Begin the next step; ends the task here if it was cancelled."""
        if self.cancelled.is_set():
            raise TaskCancelledError
        if self.state == "working":
            self.done += 1
        self.state, self.step = "working", step

    def add_result(self, result: dict[str, Any]) -> None:
        """Add a result that can be shown already."""
        self.results.append(result)

    def status(self, seen: int = 0) -> dict[str, Any]:
        """What the page shows: state, step and the results after the first `seen`."""
        facts = {"number": self.number, "state": self.state, "step": self.step, "done": self.done}
        # the state is read before the results: a task that is done has added all of them
        return {**facts, "total": self.total, "error": self.error, "results": self.results[seen:]}


TaskWork = Callable[[StudioTask], None]


class TaskQueue:
    """Waiting and finished tasks, and the one thread that runs them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "studio")
        self._numbers = itertools.count(1)
        self._tasks: dict[int, StudioTask] = {}
        self._lock = threading.Lock()

    def add(self, work: TaskWork, total: int) -> StudioTask:
        """Add a task of `total` steps to the queue; raises `StateError` where too many are waiting."""
        with self._lock:
            if sum(task.state == "waiting" for task in self._tasks.values()) >= MAX_WAITING:
                raise StateError("too many tasks are waiting already; try again in a moment")
            task = StudioTask(next(self._numbers), total)
            self._tasks[task.number] = task
            over = [number for number, old in self._tasks.items() if old.state not in ("waiting", "working")]
            for number in over[: max(0, len(self._tasks) - MAX_FINISHED)]:
                del self._tasks[number]
        self._thread.submit(_run, work, task)
        return task

    def get(self, number: int) -> StudioTask | None:
        """A task, as long as it is kept."""
        return self._tasks.get(number)

    def cancel(self, number: int) -> None:
        """Cancel a task; it ends before its next step."""
        task = self._tasks.get(number)
        if task is not None:
            task.cancelled.set()

    def close(self) -> None:
        """End the running task at its next step, and drop those that wait."""
        for task in list(self._tasks.values()):
            task.cancelled.set()
        self._thread.shutdown(cancel_futures=True)


def _run(work: TaskWork, task: StudioTask) -> None:
    """Run a task; an error becomes its message, and the thread goes on."""
    try:
        task.begin("starting")
        work(task)
        task.done, task.state = task.total, "done"
    except TaskCancelledError:
        task.state = "cancelled"
    except CaptrialError as error:
        task.error, task.state = str(error), "failed"
    except ModuleNotFoundError as error:
        task.error, task.state = str(MissingExtraError(f"this ({error.name} is not installed)", "models")), "failed"
    except Exception as error:  # a broken model, not enough memory: the studio keeps running
        task.error, task.state = f"this failed ({type(error).__name__}: {error})", "failed"
