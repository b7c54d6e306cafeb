"""Scene tuples kept on disk by content: a text is parsed once, whatever system or data set it comes from."""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import orjson

from captrial.metrics.spice.scene_graph import SceneTuple

_BATCH = 30_000  # keys a query; SQLite allows 32 766 parameters


class TupleCache:
    """One SQLite file, shared by any number of processes; `version` separates what different parsers produced."""

    def __init__(self, path: Path, version: str) -> None:
        self.path = path
        self._version = version.encode()

    def get(self, texts: Sequence[str]) -> dict[str, list[SceneTuple]]:
        """Tuples of those texts that are known."""
        keys = {self._key(text): text for text in texts}
        found: dict[str, list[SceneTuple]] = {}
        with self._done_without(), self._connection() as connection:
            for batch in _batches(list(keys), _BATCH):
                marks = ",".join("?" * len(batch))
                rows = connection.execute(f"SELECT key, tuples FROM tuples WHERE key IN ({marks})", batch)
                found.update((keys[key], _decode(value)) for key, value in rows)
        return found

    def put(self, tuples: Mapping[str, Sequence[SceneTuple]]) -> None:
        """Keep the tuples of some texts, all or none of them."""
        rows = [(self._key(text), orjson.dumps(found)) for text, found in tuples.items()]
        with self._done_without(), self._connection() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO tuples VALUES (?, ?)", rows)

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._version[:64]).digest()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=60)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS tuples (key BLOB PRIMARY KEY, tuples BLOB) WITHOUT ROWID")
            yield connection

    @contextmanager
    def _done_without(self) -> Iterator[None]:
        """An unusable file is named, and the work goes on without it."""
        try:
            yield
        except sqlite3.Error as error:
            warnings.warn(f"{self.path}: SPICE's cache cannot be used ({error}); delete it", stacklevel=4)


def _decode(value: bytes) -> list[SceneTuple]:
    return [tuple(item) for item in orjson.loads(value)]


def _batches(items: list[bytes], size: int) -> Iterator[list[bytes]]:
    return (items[start : start + size] for start in range(0, len(items), size))
