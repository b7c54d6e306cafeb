"""Tasks run one at a time and can be cancelled."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from captrial.errors import StateError
from captrial.studio.tasks import MAX_WAITING, StudioTask, TaskQueue


def test_tasks_run_one_at_a_time_and_can_be_cancelled() -> None:
    tasks, go = TaskQueue(), threading.Event()
    running: list[int] = []

    def work(task: StudioTask) -> None:
        running.append(task.number)
        assert go.wait(60)
        task.begin("second step")
        task.add_result({"number": task.number})

    first, second, third = (tasks.add(work, 2) for _ in range(3))
    broken = tasks.add(lambda task: 1 / 0, 1)  # type: ignore[arg-type, return-value]
    tasks.cancel(second.number)
    with pytest.raises(StateError, match="too many tasks are waiting"):
        deque(tasks.add(lambda task: None, 1) for _ in range(MAX_WAITING))
    go.set()
    tasks._thread.submit(lambda: None).result(60)  # behind everything else
    assert running == [first.number, third.number]
    assert (first.state, second.state, third.state) == ("done", "cancelled", "done")
    assert first.status() == {**first.status(1), "results": [{"number": first.number}]}
    assert broken.state == "failed"
    assert "ZeroDivisionError" in (broken.error or "")
    tasks.close()
