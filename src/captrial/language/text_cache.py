"""A cache on disk for values computed from texts, keyed by content; safe to share between processes.

Losing it costs only time: a cache that cannot be opened is not used, a damaged one is rebuilt.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from captrial.files import cache_directory
from captrial.progress import track

_KEYS_A_QUERY = 500  # SQLite allows at least 999 parameters
_TEXTS_A_CHUNK = 2000  # computed and stored together: bounds memory, and what a killed run loses
_PATIENCE = 60.0  # seconds to wait for another process that is writing
V = TypeVar("V")


class ValueCache(Generic[V]):
    """Values for texts in one SQLite file, named after what computed them (so a new version starts afresh)."""

    def __init__(self, name: str, what: str = "reading texts", directory: Path | None = None) -> None:
        self._name = name
        self._what = what
        self._directory = directory

    def to_bytes(self, value: V) -> bytes:
        """A value as it is stored."""
        raise NotImplementedError

    def from_bytes(self, stored: bytes) -> V:
        """The value that was stored; ValueError where these bytes are none."""
        raise NotImplementedError

    def complete(self, texts: Sequence[str], compute: Callable[[list[str]], Iterable[V]]) -> list[V]:
        """The value of every text; `compute` is asked for those not yet stored, a chunk at a time, each text once."""
        keys = {text: _key(text) for text in dict.fromkeys(texts)}
        stored = self._read(list(keys.values()))
        missing = [text for text, key in keys.items() if key not in stored]
        chunks = [missing[start : start + _TEXTS_A_CHUNK] for start in range(0, len(missing), _TEXTS_A_CHUNK)]
        for chunk in track(chunks, self._what) if len(chunks) > 1 else chunks:
            fresh = dict(zip((keys[text] for text in chunk), compute(chunk), strict=True))
            self._write(fresh)
            stored |= fresh
        return [stored[keys[text]] for text in texts]

    def known(self, texts: Sequence[str]) -> dict[str, V]:
        """The values of those texts that are stored."""
        keys = {text: _key(text) for text in texts}
        stored = self._read(list(dict.fromkeys(keys.values())))
        return {text: stored[key] for text, key in keys.items() if key in stored}

    def store(self, texts: Sequence[str], values: Iterable[V]) -> None:
        """Store values that were computed along with others."""
        self._write(dict(zip(map(_key, texts), values, strict=True)))

    @property
    def path(self) -> Path:
        """The SQLite file."""
        directory = self._directory if self._directory is not None else cache_directory() / "texts"
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{self._name}.sqlite"

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_PATIENCE)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")  # an interrupted write may be lost, never half there
            connection.execute(
                "CREATE TABLE IF NOT EXISTS checked (key BLOB PRIMARY KEY, value BLOB, sum INTEGER) WITHOUT ROWID"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, keys: list[bytes]) -> dict[bytes, V]:
        found: dict[bytes, V] = {}
        try:
            with closing(self._connect()) as connection:
                for start in range(0, len(keys), _KEYS_A_QUERY):
                    some = keys[start : start + _KEYS_A_QUERY]
                    marks = ",".join("?" * len(some))
                    rows = connection.execute(f"SELECT key, value, sum FROM checked WHERE key IN ({marks})", some)
                    found.update((key, self.from_bytes(_checked(*row))) for key, *row in rows)
        except (sqlite3.DatabaseError, ValueError, AttributeError, TypeError) as error:
            self._discard(error)
        except OSError:
            pass
        return found

    def _write(self, values: Mapping[bytes, V]) -> None:
        try:
            with closing(self._connect()) as connection, connection:
                stored = sorted((key, self.to_bytes(value)) for key, value in values.items())
                rows = ((key, value, zlib.crc32(value)) for key, value in stored)
                connection.executemany("INSERT OR IGNORE INTO checked VALUES (?, ?, ?)", rows)
        except (sqlite3.DatabaseError, OSError):
            pass  # a read-only home or a full disk must not stop a computation that has its result

    def _discard(self, error: Exception) -> None:
        if not isinstance(error, sqlite3.OperationalError):  # "file is not a database", "disk image is malformed"
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


class TextCache(ValueCache[str]):
    """A text for each text.

    >>> cache = TextCache("upper-1")  # doctest: +SKIP
    >>> cache.complete(["a", "b"], lambda missing: [text.upper() for text in missing])  # doctest: +SKIP
    ['A', 'B']
    """

    def to_bytes(self, value: str) -> bytes:
        """UTF-8, lone surrogates included."""
        return value.encode(errors="surrogatepass")

    def from_bytes(self, stored: bytes) -> str:
        """The text."""
        return stored.decode(errors="surrogatepass")


class VectorCache(ValueCache[NDArray[np.float16]]):
    """A vector for each text, in half precision; all vectors of a cache have the same length."""

    width: int | None = None  # known with the first vector

    def to_bytes(self, value: NDArray[np.float16]) -> bytes:
        """Its 16-bit floats, little-endian."""
        return value.astype("<f2").tobytes()

    def from_bytes(self, stored: bytes) -> NDArray[np.float16]:
        """The vector."""
        vector = np.frombuffer(stored, "<f2").astype(np.float16)
        self.width = self.width or len(vector)
        if not self.width or len(vector) != self.width or not np.isfinite(vector).all():
            raise ValueError("damaged vector")
        return vector


def _checked(value: bytes, checksum: int) -> bytes:
    """A stored value; ValueError where it is not what was written."""
    if zlib.crc32(value) != checksum:
        raise ValueError("damaged value")
    return value


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
