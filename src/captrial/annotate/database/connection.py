"""The database of an annotation: SQLite in the competition's directory, or PostgreSQL by URL.

Every change is one transaction, and it is on disk when it returns: SQLite runs in WAL mode with `synchronous = FULL`.
Changes are serialised (SQLite by its write lock, PostgreSQL by an advisory lock), so the rules of assignment can be
written as if there were one person at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, bindparam, create_engine, event, select
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import QueuePool

from captrial.annotate.database.schema import audit, migrate, settings
from captrial.errors import InputError, MissingExtraError

_log = logging.getLogger(__name__)

DATABASE = "annotations.sqlite"
_SETTING = select(settings.c.value).where(settings.c.name == bindparam("name"))
_NOTE = audit.insert().inline()  # nobody needs its number
_LOCK = 0x63617074  # any fixed number: names our advisory lock
_BEGIN = {  # one message each: every message to another process is time in which nobody else can change anything
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})",
}


class Store:
    """Transactions on the annotation database; safe in threads."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.engine = _engine(url)
        self._writing = threading.Lock()
        self._here = _Here()
        try:
            with self.change() as connection:
                migrate(connection)
        except BaseException as error:
            self.close()
            if isinstance(error, OperationalError):
                raise InputError(f"cannot open the annotation database: {error.orig}") from None
            raise

    @classmethod
    def in_directory(cls, directory: Path | str, url: str | None = None) -> Store:
        """The store of a competition's directory: its own SQLite file, unless `url` names a database."""
        return cls(url or f"sqlite:///{Path(directory) / DATABASE}")

    @contextmanager
    def change(self) -> Iterator[Connection]:
        """A transaction that may write; one at a time."""
        if self._here.connection is not None:  # part of a larger one
            with self._here.connection.begin_nested():
                yield self._here.connection
            return
        with self._writing, self.engine.begin() as connection:
            connection.exec_driver_sql(_BEGIN[self.engine.dialect.name])
            yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """What this thread changes meanwhile is one transaction; each change of it can still fail alone."""
        with self.change() as connection:
            self._here.connection = connection
            try:
                yield
            finally:
                self._here.connection = None
                calls, self._here.later = self._here.later, []
        for call in calls:
            try:
                call()
            except Exception:  # what was changed is on disk, whatever comes of this
                _log.exception("could not do what comes after a change")

    def afterwards(self, call: Callable[[], None]) -> None:
        """Call when what this thread has changed is on disk."""
        if self._here.connection is None:
            call()
        else:
            self._here.later.append(call)

    @contextmanager
    def at_once(self, connection: Connection) -> Iterator[None]:
        """Statements whose results nobody needs: PostgreSQL hears and answers all of them at once."""
        driver: Any = connection.connection.driver_connection
        with driver.pipeline() if self.engine.dialect.name == "postgresql" else nullcontext():
            yield

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A look at the database that never waits for writers."""
        with self.engine.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # Small things that every part needs ------------------------------------------------------------------------

    def get_setting(self, connection: Connection, name: str, default: Any) -> Any:
        """A setting of this annotation, or its default."""
        value = self.get_text(connection, name)
        return default if value is None else orjson.loads(value)

    def get_text(self, connection: Connection, name: str) -> str | None:
        """A setting as it is kept: JSON."""
        return connection.execute(_SETTING, {"name": name}).scalar_one_or_none()

    def set_setting(self, connection: Connection, name: str, value: Any) -> None:
        """Change a setting."""
        connection.execute(settings.delete().where(settings.c.name == name))
        connection.execute(settings.insert().values(name=name, value=orjson.dumps(value).decode()))

    def note(self, connection: Connection, person: int | None, action: str, detail: str = "") -> None:
        """Write a line of the audit log."""
        row = {"at": self.clock(), "person": person, "action": action, "detail": detail}
        connection.execute(_NOTE, row)


class _Here(threading.local):
    """Of one thread: the transaction that its changes are part of, and what to call after that."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.later: list[Callable[[], None]] = []


def _engine(url: str) -> Engine:
    try:
        if url.startswith("sqlite"):
            options: dict[str, Any] = {"connect_args": {"check_same_thread": False, "timeout": 30}}
            engine = create_engine(url, poolclass=QueuePool, pool_size=10, max_overflow=30, **options)
            event.listen(engine, "connect", _prepare_sqlite)
            return engine
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        engine = create_engine(url, pool_size=10, max_overflow=30)
        event.listen(engine, "connect", _prepare_postgresql)
        return engine
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(f"{url!r} is no database URL captrial knows ({error}); use postgresql://...") from None
    except ModuleNotFoundError:
        raise MissingExtraError("PostgreSQL", "postgres") from None


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver thinks
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 30000"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgresql(connection: Any, _: object) -> None:
    connection.autocommit = True  # likewise
    # compiling a statement takes longer than running any of ours (versions without a compiler know no such setting)
    connection.execute("SELECT set_config('jit', 'off', false) FROM pg_settings WHERE name = 'jit'")
