"""A cache on disk for values computed from texts, keyed by content; safe to share between processes.

Losing it costs only time: a cache that cannot be opened is not used, a damaged one is rebuilt.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from captrial.files import cache_directory
from captrial.progress import track

_KEYS_A_QUERY = 500  # SQLite allows at least 999 parameters
_TEXTS_A_CHUNK = 2000  # computed and stored together: bounds memory, and what a killed run loses
_PATIENCE = 60.0  # seconds to wait for another process that is writing


class TextCache:
    """Values for texts in one SQLite file, named after what computed them (so a new version starts afresh).

    >>> cache = TextCache("upper-1")  # doctest: +SKIP
    >>> cache.complete(["a", "b"], lambda missing: [text.upper() for text in missing])  # doctest: +SKIP
    ['A', 'B']
    """

    def __init__(self, name: str, what: str = "reading texts", directory: Path | None = None) -> None:
        self._name = name
        self._what = what
        self._directory = directory

    def complete(self, texts: Sequence[str], compute: Callable[[list[str]], Iterable[str]]) -> list[str]:
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

    def store(self, texts: Sequence[str], values: Iterable[str]) -> None:
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
            connection.execute("CREATE TABLE IF NOT EXISTS texts (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, keys: list[bytes]) -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        try:
            with closing(self._connect()) as connection:
                for start in range(0, len(keys), _KEYS_A_QUERY):
                    some = keys[start : start + _KEYS_A_QUERY]
                    marks = ",".join("?" * len(some))
                    rows = connection.execute(f"SELECT key, value FROM texts WHERE key IN ({marks})", some)
                    found.update((key, value.decode(errors="surrogatepass")) for key, value in rows)
        except (sqlite3.DatabaseError, UnicodeDecodeError, AttributeError) as error:
            self._discard(error)
        except OSError:
            pass
        return found

    def _write(self, values: Mapping[bytes, str]) -> None:
        try:
            with closing(self._connect()) as connection, connection:
                rows = sorted((key, value.encode(errors="surrogatepass")) for key, value in values.items())
                connection.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", rows)
        except (sqlite3.DatabaseError, OSError):
            pass  # a read-only home or a full disk must not stop a computation that has its result

    def _discard(self, error: Exception) -> None:
        if not isinstance(error, sqlite3.OperationalError):  # "file is not a database", "disk image is malformed"
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
