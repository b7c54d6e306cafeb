"""The thread that changes the database for people; what waits meanwhile is put on disk together.

One thread, since changes are made one at a time anyway and others would only wait for it. Waiting for the disk takes
about as long as all statements of a change, so while one change is made, those that arrive become one transaction:
each can be refused alone, and nobody hears of theirs before all are on disk.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from captrial.annotate.database.connection import Store
from captrial.errors import CaptrialError, StateError

T = TypeVar("T")
_log = logging.getLogger(__name__)
AT_ONCE = 8  # changes in a transaction: all of them wait for the last
Waiting = tuple[Callable[[], Any], "Future[Any]"]
Outcome = tuple[Any, BaseException | None]


class Changes:
    """`await changes.make(action)` runs what changes the store, in the thread that does; safe to call from any loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: SimpleQueue[Waiting | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)
        self._thread.start()

    async def make(self, action: Callable[[], T]) -> T:
        """What the action returns, once it is on disk; or whatever it raises."""
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise StateError("the room is closing")
            self._waiting.put((action, future))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish what was asked for."""
        with self._closing:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch = [self._waiting.get()]
            while len(batch) < AT_ONCE and batch[-1] is not None:
                try:
                    batch.append(self._waiting.get_nowait())
                except Empty:
                    break
            going_on = batch[-1] is not None
            wanted = [one for one in batch if one is not None and one[1].set_running_or_notify_cancel()]
            self._answer([future for _, future in wanted], self._made([action for action, _ in wanted]))

    def _made(self, actions: list[Callable[[], Any]]) -> list[Outcome]:
        """What came of each action; where anything but a refusal happens, each is made alone."""
        if len(actions) > 1:
            try:
                with self.store.together():
                    return [_tried(action, CaptrialError) for action in actions]
            except BaseException:  # then nothing of this is on disk; the one to blame hears of it below
                _log.exception("could not make %d changes together; making each alone", len(actions))
        return [_tried(action, BaseException) for action in actions]  # whatever happens, this thread goes on

    def _answer(self, futures: list[Future[Any]], outcomes: list[Outcome]) -> None:
        for future, (result, error) in zip(futures, outcomes, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


def _tried(action: Callable[[], Any], expected: type[BaseException]) -> Outcome:
    try:
        return action(), None
    except expected as error:
        return None, error
