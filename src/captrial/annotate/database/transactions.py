"""Transactions on the annotation database: SQLite in the competition's directory, or PostgreSQL by URL.

Every change is one transaction, and it is on disk when it returns: SQLite runs in WAL mode with `synchronous = FULL`.
Changes are serialised (SQLite by its write lock, PostgreSQL by an advisory lock), so the rules of assignment can be
written as if there were one person at a time.

In the web application one thread makes all changes (`WriteQueue`); several threads would only wait for each other.
Waiting for the disk takes about as long as all statements of a change, so changes that arrive while another one is
made become one transaction: each can be refused on its own, and nobody gets an answer before all of them are on disk.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import orjson
from sqlalchemy import URL, Connection, bindparam, func, select
from sqlalchemy.exc import DatabaseError

from captrial.annotate.database.connections import busy_message, describe, is_busy, make_engine
from captrial.annotate.database.schema import audit, check_version, migrate, settings
from captrial.errors import BusyError, CaptrialError, DamagedError, InputError, StateError

T = TypeVar("T")
Waiting = tuple[Callable[[], Any], "Future[Any]"]
Result = tuple[Any, BaseException | None]  # what an action returned, or what it raised
_log = logging.getLogger(__name__)

MAX_BATCH = 8  # changes in one transaction: all of them wait for the last
DATABASE = "annotations.sqlite"
_SETTING = select(settings.c.value).where(settings.c.name == bindparam("name"))
_LAST = select(func.max(audit.c.at))
_NOTE = audit.insert().inline()  # its number is not needed
_LOCK = 0x63617074  # any fixed number: the name of our advisory lock
_BEGIN = {  # one message each: while a message is on its way nobody else can change anything
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})",
}


class Store:
    """Transactions on the annotation database; safe in threads."""

    def __init__(self, url: str | URL, clock: Callable[[], float] | None = None, read_only: bool = False) -> None:
        """Open a database; one that does not exist is created, unless it is opened only to be read."""
        steady = SteadyClock()
        self.clock = clock or steady
        self.read_only = read_only
        self.engine = make_engine(url, read_only)
        self._writing = threading.Lock()
        self._local = _ThreadState()
        try:
            if read_only:
                with self.read() as connection:
                    check_version(connection)
            else:
                with self.change() as connection:
                    migrate(connection)
                    steady.not_before(connection.execute(_LAST).scalar_one() or 0.0)
        except BaseException as error:
            self.close()
            if isinstance(error, DatabaseError):
                raise InputError(
                    f"cannot open the annotation database {describe(self.engine)}: {str(error.orig).strip()}"
                ) from None
            raise

    @classmethod
    def in_directory(cls, directory: Path | str, url: str | None = None, read_only: bool = False) -> Store:
        """The store of a competition's directory: its own SQLite file, unless `url` names a database."""
        own = URL.create("sqlite", database=str(Path(directory) / DATABASE))
        return cls(url or own, read_only=read_only)

    @contextmanager
    def change(self) -> Iterator[Connection]:
        """A transaction that may write; one at a time."""
        if self.read_only:
            raise StateError("the annotation database was opened only to be read")
        if self._local.connection is not None:  # part of a batch
            with self._local.connection.begin_nested():
                yield self._local.connection
            return
        with self._busy_named(), self._writing, self.engine.begin() as connection:
            connection.exec_driver_sql(_BEGIN[self.engine.dialect.name])
            yield connection

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make all changes of this thread in the `with` block one transaction; each of them can still fail alone."""
        with self.change() as connection:
            self._local.connection = connection
            try:
                yield
            finally:
                self._local.connection = None
                calls, self._local.after_commit = self._local.after_commit, []
        for call in calls:
            try:
                call()
            except Exception:  # the changes are on disk whether or not this works
                _log.exception("a call after a transaction failed")

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call when the changes of this thread are on disk."""
        if self._local.connection is None:
            call()
        else:
            self._local.after_commit.append(call)

    @contextmanager
    def pipeline(self, connection: Connection) -> Iterator[None]:
        """Send statements whose results are not needed in one message (PostgreSQL only)."""
        driver: Any = connection.connection.driver_connection
        with driver.pipeline() if self.engine.dialect.name == "postgresql" else nullcontext():
            yield

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads and never waits for writers."""
        try:
            with self._busy_named(), self.engine.connect() as connection:
                if self.engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN")
                yield connection
                connection.rollback()
        except DatabaseError as error:
            if self.engine.dialect.name != "sqlite":
                raise
            raise DamagedError(
                describe(self.engine), str(error.orig).strip(), "`captrial annotate import` of an export"
            ) from None

    def copy_to(self, path: Path) -> None:
        """Copy an SQLite database to a new file."""
        with self._busy_named(), self.engine.connect() as connection, closing(sqlite3.connect(path)) as target:
            driver: Any = connection.connection.driver_connection
            driver.backup(target)

    @contextmanager
    def _busy_named(self) -> Iterator[None]:
        """A lock that another process kept for too long, as `BusyError`."""
        try:
            yield
        except (DatabaseError, sqlite3.OperationalError) as error:
            if is_busy(getattr(error, "orig", error)):
                raise BusyError(busy_message(describe(self.engine))) from None
            raise

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # Settings and the audit log ----------------------------------------------------------------------------------

    def get_setting(self, connection: Connection, name: str, default: Any) -> Any:
        """The value of a setting, or the default."""
        value = self.get_text(connection, name)
        return default if value is None else orjson.loads(value)

    def get_text(self, connection: Connection, name: str) -> str | None:
        """A setting as it is stored, in JSON; None where it was never set."""
        return connection.execute(_SETTING, {"name": name}).scalar_one_or_none()

    def set_setting(self, connection: Connection, name: str, value: Any) -> None:
        """Store a setting; the value must be possible in JSON."""
        connection.execute(settings.delete().where(settings.c.name == name))
        connection.execute(settings.insert().values(name=name, value=orjson.dumps(value).decode()))

    def note(self, connection: Connection, person: int | None, action: str, detail: str = "") -> None:
        """Add a line to the audit log."""
        row = {"at": self.clock(), "person": person, "action": action, "detail": detail}
        connection.execute(_NOTE, row)


class SteadyClock:
    """The time in seconds, as `time.time`, that never goes back, also where somebody sets the clock back.

    The order of answers, leases and sessions depend on it. Where the clock is set back, time goes on from where it was.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._lock = threading.Lock()
        self._last, self._then = wall(), elapsed()

    def __call__(self) -> float:
        """The time now."""
        with self._lock:
            now = self._elapsed()
            self._last, self._then = max(self._wall(), self._last + now - self._then), now
            return self._last

    def not_before(self, earliest: float) -> None:
        """Go on from a time that was noted earlier, if the clock was set back since."""
        with self._lock:
            self._last = max(self._last, earliest)


class _ThreadState(threading.local):
    """Of one thread: the transaction of its batch, and what to call after that."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.after_commit: list[Callable[[], None]] = []


class WriteQueue:
    """`await queue.run(action)` runs an action that changes the store, in the thread that makes all changes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: SimpleQueue[Waiting | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="write queue", daemon=True)
        self._thread.start()

    async def run(self, action: Callable[[], T]) -> T:
        """Return what the action returns, once its changes are on disk, or raise what it raises."""
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise StateError("the server is closing")
            self._waiting.put((action, future))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Run the waiting actions and accept no more."""
        with self._closing:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            batch = [self._waiting.get()]
            while len(batch) < MAX_BATCH and batch[-1] is not None:
                try:
                    batch.append(self._waiting.get_nowait())
                except Empty:
                    break
            running = batch[-1] is not None
            accepted = [one for one in batch if one is not None and one[1].set_running_or_notify_cancel()]
            self._answer([future for _, future in accepted], self._results([action for action, _ in accepted]))

    def _results(self, actions: list[Callable[[], Any]]) -> list[Result]:
        """Run the actions in one transaction; where one fails with more than a refusal, run each alone."""
        if len(actions) > 1:
            try:
                with self.store.batch():
                    return [_try(action, CaptrialError) for action in actions]
            except BusyError as error:  # each alone would wait as long again
                return [(None, error) for _ in actions]
            except BaseException:  # nothing of this is on disk; below the failing action gets its error
                _log.exception("%d changes failed as one transaction; trying each alone", len(actions))
        return [_try(action, BaseException) for action in actions]  # this thread survives any error

    def _answer(self, futures: list[Future[Any]], results: list[Result]) -> None:
        for future, (result, error) in zip(futures, results, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


def _try(action: Callable[[], Any], expected: type[BaseException]) -> Result:
    try:
        return action(), None
    except expected as error:
        return None, error
