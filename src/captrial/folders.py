"""Folders that captrial writes: one process at a time, with checksums, and never over a user's own files.

lock_folder                   one writing process per folder
write_checked, check_files    lengths and checksums of the files of a folder, in `checksums.json`
FolderVerifier                how `captrial verify` recognises and checks one kind of folder
refuse_foreign_folder         the check before a command writes to a folder; `output_folder` writes its files
work_folder                   a temporary folder in the cache
"""

from __future__ import annotations

import errno
import fcntl
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
from captrial.files import (
    FileSum,
    atomic_path,
    atomic_write,
    cache_directory,
    path_inside,
    refuse_overwrite,
    without_passwords,
)

CHECKSUMS = "checksums.json"
LOCK = ".captrial.lock"
_STAGING = ".captrial.staging."
_TEMPORARY = re.compile(r"\..{1,40}\.[0-9a-f]{12}(\.\w+)?")  # names of `atomic_path`
# of a competition, a pool, a feature store, a training run or output of workers, a checkpoint, a toy world
_KINDS = ("competition.json", "manifest.parquet", "store.json", "run.json", "vocabulary.json", "toyworld.json")
_CHECKSUMS_FORMAT = "captrial checksums 1"
_held: ContextVar[frozenset[Path]] = ContextVar("held locks", default=frozenset())
_descriptors: set[int] = set()
log = logging.getLogger(__name__)


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
    if not created and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder; choose another output")
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(folder, what)
    token = _held.set(_held.get() | {key})
    try:
        for old in folder.glob(f"{_STAGING}*"):  # what a killed process left of `write_checked`
            shutil.rmtree(old, ignore_errors=True)
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


def check_file(
    path: Path | str, expected: FileSum | Sequence[FileSum], remake: str, *, only_length: bool = False
) -> None:
    """Raise a `DamagedError` unless the file has one of the expected lengths and checksums.

    `remake` is the command, or the words, that make the file again.
    """
    path = Path(path)
    allowed = [expected] if isinstance(expected, FileSum) else list(expected)
    try:
        size = path.stat().st_size
        if size not in {one.bytes for one in allowed}:
            raise DamagedError(path, f"has {size} bytes instead of {allowed[-1].bytes}", remake)
        if not only_length and FileSum.of(path) not in allowed:
            raise DamagedError(path, "its content does not match its checksum", remake)
    except OSError as error:
        raise DamagedError(path, f"cannot be read ({error.strerror or error})", remake) from None


@contextmanager
def write_checked(folder: Path | str, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield an empty folder; files written there are moved to `folder` together, and recorded in `checksums.json`.

    Files that are there already keep their records. A kill at any moment leaves files that match their records:
    while files are replaced, the record allows the old and the new content of each. Without `overwrite`, files that
    are not recorded are not replaced: an `InputError`, and nothing is written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder))
    try:
        yield staging
        fresh = {path.relative_to(staging).as_posix(): path for path in sorted(staging.rglob("*")) if path.is_file()}
        sums = {name: FileSum.of(path) for name, path in fresh.items()}
        before = read_checksums(folder, lenient=True)
        for name in fresh:
            refuse_overwrite(folder / name, overwrite=overwrite or name in before)
        both = {**before, **{name: [*before.get(name, []), one] for name, one in sums.items()}}
        _write_checksums(folder, both)
        for name, path in fresh.items():
            with atomic_path(folder / name) as temporary:
                path.replace(temporary)
        _write_checksums(folder, {**before, **{name: [one] for name, one in sums.items()}})
    finally:
        shutil.rmtree(staging, ignore_errors=True)


_LONGEST_NAME = 255  # bytes, of any file on the usual systems


def record_files(folder: Path | str, names: Iterable[str]) -> None:
    """Add complete files to `checksums.json`; those that it has keep their records, files that are gone lose theirs."""
    folder, before = Path(folder), read_checksums(folder, lenient=True)
    known = {name: sums for name, sums in before.items() if (folder / name).exists()}
    new = {name: [FileSum.of(folder / name)] for name in names if name not in known}
    if new or known != before:
        _write_checksums(folder, {**known, **new})


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
        for name in found:
            if any(len(part.encode()) > _LONGEST_NAME for part in name.split("/")):
                raise ValueError("a name that no file can have")
            path_inside(folder, name.encode().decode())  # a stranger's record must not make us read other files
    except FileNotFoundError:
        return {}
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
        InputError,
    ) as error:
        if lenient:
            return {}
        raise DamagedError(path, f"is not a list of checksums ({error})", "the command that wrote the folder") from None
    return found


def _write_checksums(folder: Path, files: Mapping[str, Sequence[FileSum]]) -> None:
    listed = {
        name: [{"bytes": one.bytes, "blake2b": one.blake2b} for one in sums] for name, sums in sorted(files.items())
    }
    atomic_write(folder / CHECKSUMS, json.dumps({"format": _CHECKSUMS_FORMAT, "files": listed}, indent=2))


def check_files(
    folder: Path | str, remake: str, names: Iterable[str] | None = None, *, only_length: bool = False
) -> list[str]:
    """Check files of a folder against `checksums.json` (default: all that it lists); return the names checked.

    Raises a `DamagedError` for the first one that does not match. Folders without records pass.
    """
    folder, sums = Path(folder), read_checksums(folder)
    chosen = [name for name in (sums if names is None else names) if name in sums]
    for name in chosen:
        check_file(folder / name, sums[name], remake, only_length=only_length)
    return chosen


def damaged_files(folder: Path | str, remake: str) -> list[str]:
    """What is wrong with the files that `checksums.json` lists, one message per damaged or missing file."""
    folder, problems = Path(folder), []
    try:
        sums = read_checksums(folder)
    except DamagedError as error:
        return [str(error)]
    for name, allowed in sums.items():
        try:
            check_file(folder / name, allowed, remake)
        except DamagedError as error:
            problems.append(str(error))
    return problems


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


def is_own_folder(folder: Path | str) -> bool:
    """Whether captrial made this folder: it has a `checksums.json`."""
    try:
        document = json.loads((Path(folder) / CHECKSUMS).read_bytes())
        return isinstance(document, dict) and document.get("format") == _CHECKSUMS_FORMAT
    except (OSError, ValueError, RecursionError):
        return False


def kind_marks(folder: Path | str) -> list[str]:
    """The files that make a folder a competition, a feature store or another kind that commands read and extend."""
    return [name for name in _KINDS if (Path(folder) / name).exists()]


def refuse_foreign_folder(
    folder: Path | str, *, overwrite: bool | None = None, ours: Callable[[Path], bool] = lambda _: False
) -> None:
    """Raise an `InputError` if `folder` holds something that captrial did not write. Call it before any work.

    Allowed are a new or empty folder, one that captrial made and that is of no other kind (see `kind_marks`), and one
    that `ours` recognises; with `overwrite`, any.
    """

    def allowed(path: Path) -> bool:
        if not path.is_dir() or kind_marks(path):
            return path.is_dir() and ours(path)
        return is_own_folder(path) or ours(path) or not any(foreign_files(path))

    folder = Path(folder)
    refuse_overwrite(folder, overwrite=overwrite and folder.is_dir(), ours=allowed)


def claim_folder(folder: Path | str, *, overwrite: bool = False) -> None:
    """`refuse_foreign_folder`, then mark the folder as captrial's by a `checksums.json` that lists nothing yet."""
    refuse_foreign_folder(folder, overwrite=overwrite)
    if not (Path(folder) / CHECKSUMS).exists():
        Path(folder).mkdir(parents=True, exist_ok=True)
        _write_checksums(Path(folder), {})


def foreign_files(folder: Path | str) -> Iterator[str]:
    """Files below a folder that captrial did not write there, or that have changed since, relative to it.

    Its own are the files that `checksums.json` records, its lock, and what a killed process left.
    """
    folder = Path(folder)
    recorded = read_checksums(folder, lenient=True) if is_own_folder(folder) else {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(_STAGING))
        for name in sorted(names):
            path = Path(parent, name)
            place = path.relative_to(folder).as_posix()
            own = place == LOCK or _TEMPORARY.fullmatch(name) or (place == CHECKSUMS and is_own_folder(folder))
            if not own and not (place in recorded and path.is_file() and FileSum.of(path) in recorded[place]):
                yield place


@contextmanager
def output_folder(folder: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """`write_checked` for the output folder of a command: locked, and nothing is replaced that captrial did not write.

    Refused before the block: a folder of something else (see `claim_folder`), and one with a file that has changed
    since captrial wrote it. With `overwrite`, such files are replaced.
    """
    with lock_folder(folder, "output folder"):
        refuse_foreign_folder(folder, overwrite=overwrite)
        changed = set() if overwrite else set(foreign_files(folder))
        for name in read_checksums(folder, lenient=True):
            refuse_overwrite(Path(folder) / name, overwrite=name not in changed)
        with write_checked(folder, overwrite=overwrite) as staging:
            yield staging


@contextmanager
def work_folder(kind: str) -> Iterator[Path]:
    """A temporary folder in the cache, removed after the block; what killed processes left is removed before it."""
    base = cache_directory() / "work"
    for old in base.glob(f"{kind}-*"):
        with suppress(StateError), lock_folder(old):  # another process that still runs keeps its own
            shutil.rmtree(old, ignore_errors=True)
    folder = base / f"{kind}-{secrets.token_hex(6)}"
    with lock_folder(folder, "work folder"):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
