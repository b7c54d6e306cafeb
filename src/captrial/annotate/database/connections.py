"""Connections to the annotation database: SQLite or PostgreSQL, for changes or only to read.

Opening a database only to read changes nothing on disk, and works on read-only media. SQLite needs care for that: a
database in WAL mode cannot be opened where its `-shm` file can be neither found nor made.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from captrial.errors import BusyError, DamagedError, InputError, MissingExtraError, StateError

POOL: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 10, "max_overflow": 30}
BUSY_SECONDS = 30.0  # that SQLite waits for another process


def make_engine(url: str | URL, read_only: bool = False) -> Engine:
    """The engine of a database; `read_only`, a missing SQLite file is an error instead of being created."""
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed, read_only)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() != "postgresql":
            raise NoSuchModuleError(f"{parsed.drivername} is not supported")
        engine = create_engine(parsed, **POOL)
        event.listen(engine, "connect", _prepare_postgresql(read_only))
        return engine
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(
            f"{_shown(url)} is not a database URL that captrial supports ({error}); use postgresql://..."
        ) from None
    except ModuleNotFoundError:
        raise MissingExtraError("PostgreSQL", "postgres") from None


def sqlite_file(url: str | URL) -> Path | None:
    """The file of an SQLite database; None for any other database."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def describe(engine: Engine) -> str:
    """Where a database is, without a password: `annotations.sqlite`, or an address."""
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    if file:
        return Path(file).name
    return engine.url.set(drivername=engine.dialect.name, query={}).render_as_string(hide_password=True)


def is_busy(error: BaseException | None) -> bool:
    """Whether SQLite gave up waiting for another process; nothing is wrong with the file then."""
    code = getattr(error, "sqlite_errorcode", None)  # extended: the reason is in the low byte
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def busy_message(name: str) -> str:
    """What to do about a database that another process keeps locked."""
    return (
        f"{name}: another process has kept the annotation database locked for {BUSY_SECONDS:g} s, and it is not"
        " damaged; try again, or end that process (`fuser` names it)"
    )


def _shown(url: str | URL) -> str:
    return repr(url) if isinstance(url, str) and "@" not in url else "this"


def _sqlite(url: URL, read_only: bool) -> Engine:
    path = Path(url.database or "")
    if path.is_file() and path.stat().st_size == 0:
        raise DamagedError(path, "is an empty file", "`captrial annotate serve`, after you have removed the empty file")
    if not read_only:
        engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": BUSY_SECONDS}, **POOL)
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    if not path.is_file():
        raise StateError(f"{path}: no such annotation database; `captrial annotate serve` makes it")
    engine = create_engine(url, creator=_reader(path), **POOL)
    event.listen(engine, "connect", _leave_transactions_alone)
    return engine


def _reader(path: Path) -> Callable[[], sqlite3.Connection]:
    """Opens a file that must not change. Without a `-wal` file nobody is using it, and all of it is in the file."""
    if not path.with_name(f"{path.name}-wal").exists():
        return lambda: _connect(path, "immutable=1")
    try:
        _connect(path, "mode=ro").close()
        return lambda: _connect(path, "mode=ro")
    except sqlite3.OperationalError as error:  # read-only media: no -shm file can be made
        if is_busy(error):  # a copy of files that somebody is writing would be torn
            raise BusyError(busy_message(path.name)) from None
        folder = tempfile.TemporaryDirectory(prefix="captrial-annotations-")
        for name in (path.name, f"{path.name}-wal"):
            shutil.copyfile(path.with_name(name), Path(folder.name, name))

        def connect() -> sqlite3.Connection:
            return _connect(Path(folder.name, path.name), "mode=rw")  # the folder is removed with this function

        return connect


def _connect(path: Path, options: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{options}"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False, timeout=BUSY_SECONDS)
    connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
    return connection


def _leave_transactions_alone(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `Store.change` and `Store.read` begin transactions, not the driver


def _prepare_sqlite(connection: Any, record: object) -> None:
    _leave_transactions_alone(connection, record)
    patience = f"busy_timeout = {BUSY_SECONDS * 1000:.0f}"
    pragmas = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", patience)
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgresql(read_only: bool) -> Callable[[Any, object], None]:
    def prepare(connection: Any, _: object) -> None:
        connection.autocommit = True  # as above
        # compiling a statement takes longer than running any of ours (a server without a compiler has no such setting)
        connection.execute("SELECT set_config('jit', 'off', false) FROM pg_settings WHERE name = 'jit'")
        if read_only:
            connection.execute("SET default_transaction_read_only = on")

    return prepare
