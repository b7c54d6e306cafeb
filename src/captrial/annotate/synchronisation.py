"""A thread that keeps a room and its competition's directory in step, about once a second.

What people did goes out into the files that `compete` reads: these are derived, the database is what must not be lost.
What `compete add` and `compete select` did comes in, while people work.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from captrial.compete.storage.manifest import MANIFEST

EVERY = 1.0  # seconds
REST = 20  # times as long as the work took: it costs the people who work meanwhile
_log = logging.getLogger(__name__)


class Keeper:
    """Calls `write` after `wake`, and `reopen` after the competition has changed, until it is closed."""

    def __init__(self, directory: Path, write: Callable[[], None], reopen: Callable[[], bool]) -> None:
        """`reopen` returns whether it could be done; otherwise it is tried again."""
        self.directory, self._write, self._reopen = directory, write, reopen
        self.closed = threading.Event()
        self._stale = threading.Event()
        self._seen = self._stamp()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to write."""
        self._stale.set()

    def close(self) -> None:
        """Finish what was begun, and no more."""
        self.closed.set()
        self._thread.join()

    def _run(self) -> None:
        rest = EVERY
        while not self.closed.wait(rest):
            begun = time.perf_counter()
            try:
                self._look()
                rest = max(EVERY, REST * (time.perf_counter() - begun))
            except Exception:  # a full disk, a database that restarts, whatever: later, then
                _log.exception("could not bring the competition's files up to date; trying again")
                rest = EVERY

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp != self._seen and self._reopen():
            self._seen = stamp
        if self._stale.is_set():
            self._stale.clear()
            try:
                self._write()
            except BaseException:
                self._stale.set()
                raise

    def _stamp(self) -> list[int]:
        """Changes when a model is added and when images are selected: both write whole files by renaming."""
        paths = (self.directory / MANIFEST, self.directory / "selection")
        return [path.stat().st_mtime_ns for path in paths if path.exists()]
