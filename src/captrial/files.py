"""Atomic files (`atomic_path`, `atomic_write`), content hashes and the cache directory."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and renamed to `path`, on failure removed.

    A reader, or a run that continues after a kill, never finds an incomplete file.

    >>> with atomic_path(tmp / "a.txt") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("complete or not there")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}{path.suffix}")
    with _named(path):
        temporary.touch(exist_ok=False)  # not mkstemp, which sets mode 0600: results get the usual permissions
        mode = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)  # safetensors replaces the file by its own, with mode 0600
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        with _named(path):
            temporary.replace(path)
        _sync_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write(path: Path | str, content: bytes | str) -> None:
    """Write `content` to `path` atomically (see `atomic_path`)."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table, whole or not at all."""
    atomic_write(path, csv_table(columns, rows))
    return path


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as CSV; text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> csv_table(["id", "caption"], [[1, "=SUM(1)"], [2, "a dog"]])
    b"id,caption\\r\\n1,'=SUM(1)\\r\\n2,a dog\\r\\n"
    """
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_escaped(cell) for cell in row] for row in [columns, *rows])
    return text.getvalue().encode()


def content_hash(content: bytes | str, digits: int = 16) -> str:
    """A short, stable hash of some content (blake2b, hexadecimal)."""
    data = content.encode() if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=digits // 2).hexdigest()


def stamp(path: Path | str) -> str | None:
    """A fingerprint of size and time of a file, or of the files of a folder: cheap where files are large.

    Of a run folder, that of its best checkpoint; None where there is no such file or folder.
    """
    path = Path(path)
    if not path.exists():
        return None
    if path.is_dir():
        folder = path / "best" if (path / "best").is_dir() else path
        files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    else:
        files = [path]
    return content_hash(repr([(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]))


def stamps(**paths: Path | str | None) -> dict[str, str]:
    """The stamps of those paths that exist, by keyword."""
    found = {name: stamp(path) for name, path in paths.items() if path is not None}
    return {name: value for name, value in found.items() if value is not None}


def cache_directory() -> Path:
    """The folder for derived files that are kept between runs: `CAPTRIAL_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("CAPTRIAL_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = Path(chosen) if chosen else base / "captrial"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _escaped(cell: object) -> object:
    risky = isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@", "\t", "\r"}
    return f"'{cell}" if risky else cell


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Make errors name `path` instead of the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
