"""Files that are complete, undamaged, written by one process at a time, and never written over a user's own.

atomic_path, atomic_write     a file is complete or not there
lock_folder                   one writing process per folder
write_checked, check_files    lengths and checksums of the files of a folder, in `checksums.json`
FolderVerifier                how `captrial verify` recognises and checks one kind of folder
refuse_overwrite              the check before a command writes its output; `output_path` writes it
content_hash, stamp           fingerprints; `cache_directory` for derived files
"""

from __future__ import annotations

import csv
import errno
import fcntl
import hashlib
import io
import json
import logging
import os
import re
import secrets
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from captrial.errors import DamagedError, InputError, StateError

CHECKSUMS = "checksums.json"
LOCK = ".captrial.lock"
_CHUNK = 1 << 20
_MAX_OUTPUT_RECORDS = 4000
_held: ContextVar[frozenset[Path]] = ContextVar("held locks", default=frozenset())
_descriptors: set[int] = set()
log = logging.getLogger(__name__)


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


@contextmanager
def lock_folder(folder: Path | str, what: str = "folder") -> Iterator[None]:
    """Keep other processes from writing to `folder` inside the block; `what` names it in messages ("pool").

    Raises a `StateError` that names the other process if there is one. The lock ends with the process, also when it is
    killed. A block inside another one of the same thread or task does not lock again. The folder is created where it
    does not exist, and removed again if nothing was written. Reading needs no lock.
    """
    folder = Path(folder)
    key = folder.resolve()
    if key in _held.get():
        yield
        return
    created = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(folder, what)
    token = _held.set(_held.get() | {key})
    try:
        yield
    finally:
        _held.reset(token)
        with suppress(OSError):
            (folder / LOCK).unlink()  # while it is locked: a process that waits for this file notices (see `_acquire`)
        _descriptors.discard(descriptor)
        os.close(descriptor)
        if created:
            with suppress(OSError):
                folder.rmdir()  # fails if it is not empty


def _acquire(folder: Path, what: str) -> int:
    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise StateError(_locked_message(folder, what, holder)) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                os.close(descriptor)
                raise
            log.warning("%s: this file system has no locks; do not start two commands on this %s", folder, what)
        if _is_file_of(descriptor, path):
            break
        os.close(descriptor)  # the holder removed the file when it finished: lock the new one
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    command = without_passwords(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))[:300]
    record = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": started, "command": command})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, record.encode(), 0)
    _descriptors.add(descriptor)
    return descriptor


def _is_file_of(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _locked_message(folder: Path, what: str, holder: bytes) -> str:
    try:
        other = json.loads(holder)
        process = f"process {other['pid']} on {other['host']} (`{other['command']}`, since {other['since']})"
    except (ValueError, KeyError, TypeError):  # not written yet
        process = "another process"
    return (
        f"{folder}: {process} is writing to this {what}; wait until it has finished, or stop it. If no such process "
        f"runs any more (after a crash of another machine), remove {folder / LOCK}"
    )


def _close_in_child() -> None:
    """A forked child must not keep the lock of a parent that was killed."""
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_in_child)


@dataclass(frozen=True, slots=True)
class FileSum:
    """The length and the checksum (blake2b, 32 hexadecimal digits) of a file."""

    bytes: int
    blake2b: str

    @classmethod
    def of(cls, path: Path | str) -> FileSum:
        """Read a file from its start to its end."""
        digest, size = hashlib.blake2b(digest_size=16), 0
        with Path(path).open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return cls(size, digest.hexdigest())


def check_file(path: Path | str, expected: FileSum | Sequence[FileSum], remake: str) -> None:
    """Raise a `DamagedError` unless the file has one of the expected lengths and checksums.

    `remake` is the command, or the words, that make the file again.
    """
    path = Path(path)
    allowed = [expected] if isinstance(expected, FileSum) else list(expected)
    try:
        size = path.stat().st_size
        if size not in {one.bytes for one in allowed}:
            raise DamagedError(path, f"has {size} bytes instead of {allowed[-1].bytes}", remake)
        if FileSum.of(path) not in allowed:
            raise DamagedError(path, "its content does not match its checksum", remake)
    except OSError as error:
        raise DamagedError(path, f"cannot be read ({error.strerror or error})", remake) from None


@contextmanager
def write_checked(folder: Path | str) -> Iterator[Path]:
    """Yield an empty folder; files written there are moved to `folder` together, and recorded in `checksums.json`.

    Files that are there already keep their records. A kill at any moment leaves files that match their records:
    while files are replaced, the record allows the old and the new content of each.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() in _held.get():  # what is left of a killed process; nobody else is writing now
        for old in folder.glob(".staging.*"):
            shutil.rmtree(old, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=".staging.", dir=folder))
    try:
        yield staging
        fresh = {path.relative_to(staging).as_posix(): path for path in sorted(staging.rglob("*")) if path.is_file()}
        sums = {name: FileSum.of(path) for name, path in fresh.items()}
        before = read_checksums(folder, lenient=True)
        both = {**before, **{name: [*before.get(name, []), one] for name, one in sums.items()}}
        _write_checksums(folder, both)
        for name, path in fresh.items():
            with atomic_path(folder / name) as temporary:
                path.replace(temporary)
        _write_checksums(folder, {**before, **{name: [one] for name, one in sums.items()}})
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read_checksums(folder: Path | str, *, lenient: bool = False) -> dict[str, list[FileSum]]:
    """The allowed lengths and checksums of the files of a folder; empty where none are recorded.

    A record that is damaged itself raises a `DamagedError`; with `lenient`, it counts as empty.
    """
    path = Path(folder) / CHECKSUMS
    try:
        document = json.loads(path.read_bytes())
        found = {
            str(name): [FileSum(int(one["bytes"]), str(one["blake2b"])) for one in sums]
            for name, sums in document["files"].items()
        }
        if not all(found.values()):
            raise ValueError("a file without a checksum")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        if lenient:
            return {}
        raise DamagedError(path, f"is no list of checksums ({error})", "the command that wrote the folder") from None
    return found


def _write_checksums(folder: Path, files: Mapping[str, Sequence[FileSum]]) -> None:
    listed = {
        name: [{"bytes": one.bytes, "blake2b": one.blake2b} for one in sums] for name, sums in sorted(files.items())
    }
    atomic_write(folder / CHECKSUMS, json.dumps({"format": "captrial checksums 1", "files": listed}, indent=2))


def check_files(folder: Path | str, remake: str, names: Iterable[str] | None = None) -> list[str]:
    """Check files of a folder against `checksums.json` (default: all that it lists); return the names checked.

    Raises a `DamagedError` for the first one that does not match. Folders without records pass.
    """
    folder, sums = Path(folder), read_checksums(folder)
    chosen = [name for name in (sums if names is None else names) if name in sums]
    for name in chosen:
        check_file(folder / name, sums[name], remake)
    return chosen


@dataclass(frozen=True, slots=True)
class VerifiedFolder:
    """The outcome of verifying a folder: what it is, how many files were checked, and what is wrong."""

    kind: str
    files: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FolderVerifier:
    """One kind of folder that `captrial verify` knows."""

    name: str  # e.g. "image pool"
    recognise: Callable[[Path], bool]  # from the content of the folder
    verify: Callable[[Path], VerifiedFolder]


def refuse_overwrite(
    output: Path | str,
    *,
    inputs: Iterable[Path | str | None] = (),
    overwrite: bool = False,
    ours: Callable[[Path], bool] | None = None,
) -> None:
    """Raise an `InputError` if writing `output` would replace an input, or something that captrial did not write.

    An output that is one of the `inputs` (the same file, also through links) is always refused. One that exists is
    refused unless `overwrite` is set or `ours` recognises it; by default, `is_own_output`. Call it before any work.
    """
    output = Path(output)
    for one in inputs:
        if one is not None and _is_same(output, Path(one)):
            raise InputError(f"{output}: is also an input ({one}); choose another output")
    if not os.path.lexists(output) or overwrite or (ours or is_own_output)(output):
        return
    what = "folder" if output.is_dir() else "file"
    raise InputError(
        f"{output}: this {what} exists and was not written by captrial, or has changed since; choose another output, "
        "or replace it with --overwrite"
    )


@contextmanager
def output_path(path: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """`atomic_path` for the output of a command: refused as by `refuse_overwrite`, and recorded as captrial's own."""
    refuse_overwrite(path, overwrite=overwrite)
    with atomic_path(path) as temporary:
        yield temporary
    record_output(path)


def _is_same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except (OSError, ValueError):
        return first.absolute() == second.absolute()


def record_output(path: Path | str) -> None:
    """Remember that captrial wrote a file, so that `refuse_overwrite` lets it be replaced while it is unchanged."""
    path = Path(path).resolve()
    with suppress(OSError):  # without a cache directory, only --overwrite replaces files
        folder = cache_directory() / "outputs"
        folder.mkdir(exist_ok=True)
        atomic_write(folder / content_hash(os.fsencode(path)), f"{stamp(path)}\n{os.fsdecode(path)!a}\n")
        _forget_old_records(folder)


def is_own_output(path: Path) -> bool:
    """Whether captrial wrote a file (see `record_output`) and it has not changed since."""
    try:
        record = (cache_directory() / "outputs" / content_hash(os.fsencode(path.resolve()))).read_text()
        return path.is_file() and record.partition("\n")[0] == stamp(path)
    except (OSError, UnicodeDecodeError):
        return False


def _forget_old_records(folder: Path) -> None:
    records = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    if len(records) > _MAX_OUTPUT_RECORDS:
        records.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in records[: _MAX_OUTPUT_RECORDS // 4]:
            entry.unlink(missing_ok=True)


def path_inside(folder: Path | str, name: str) -> Path:
    """`folder / name`; an `InputError` where `name`, which comes from a file, leads out of `folder`.

    An absolute name is allowed if it lies in `folder`. Links are not followed: a file cannot contain one.
    """
    root = Path(folder).absolute()
    path = os.path.normpath(root / name)  # resolves `..` without following links
    if "\0" in name or not Path(path).is_relative_to(root):
        raise InputError(
            f"{name!r} leads out of the folder {folder}; move the file there, and give its path from there"
        )
    return Path(path)


def without_passwords(text: str) -> str:
    """A text without the user names and passwords of its URLs, for journals, manifests and messages.

    >>> without_passwords("see https://me:secret@example.org/a.jpg")
    'see https://***@example.org/a.jpg'
    """
    return re.sub(r"(?<=://)[^/?#\s@]*(?:@[^/?#\s@]*)*@", "***@", text)


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
