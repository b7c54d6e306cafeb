"""Files that are complete, and never written over a user's own.

atomic_path, atomic_write     a file is complete or not there; `write_csv` for tables
refuse_overwrite              the check before a command writes its output; `output_path` writes it
check_writable                a part of that check: whether the place can be written to
content_hash, stamp, FileSum  fingerprints of content and files
path_inside                   a path that a data file names, kept inside its folder
cache_directory               where derived files are kept between runs
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from captrial.errors import InputError

_CHUNK = 1 << 20
_MAX_OUTPUT_RECORDS = 4000


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


def image_source(image: Path | str | bytes) -> list[str]:
    """What identifies the content of an image: the stamp of its file (empty for bytes), and a hash of its bytes."""
    if isinstance(image, bytes):
        return ["", content_hash(image)]
    return [stamp(image) or "", FileSum.of(image).blake2b[:16]]


def is_changed(image: Path | str | bytes, source: object) -> bool:
    """Whether an image has another content than `image_source` returned before; the bytes are read if in doubt.

    False where nothing was recorded, or the file is gone.
    """
    if not isinstance(source, list) or len(source) != 2 or (not isinstance(image, bytes) and not Path(image).is_file()):
        return False
    if not isinstance(image, bytes) and source[0] == stamp(image):
        return False
    return image_source(image)[1] != str(source[1])


def stamps(**paths: Path | str | None) -> dict[str, str]:
    """The stamps of those paths that exist, by keyword."""
    found = {name: stamp(path) for name, path in paths.items() if path is not None}
    return {name: value for name, value in found.items() if value is not None}


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


def refuse_overwrite(
    output: Path | str,
    *,
    inputs: Iterable[Path | str | None] = (),
    overwrite: bool | None = False,
    ours: Callable[[Path], bool] | None = None,
) -> None:
    """Raise an `InputError` if writing `output` would replace an input, or something that captrial did not write.

    An output that is one of the `inputs` (the same file, also through links) is always refused. One that exists is
    refused unless `overwrite` is set or `ours` recognises it; by default, `is_own_output`. Call it before any work.
    `overwrite` is None where a command has no such option.
    """
    output = Path(output)
    for one in inputs:
        if one is not None and _is_same(output, Path(one)):
            raise InputError(f"{output}: is also an input ({one}); choose another output")
    if not os.path.lexists(output) or overwrite or (ours or is_own_output)(output):
        check_writable(output)
        return
    what = "folder" if output.is_dir() else "file"
    raise InputError(
        f"{output}: this {what} exists and was not written by captrial, or has changed since; choose another output"
        + ("" if overwrite is None else ", or replace it with --overwrite")
    )


def check_writable(path: Path | str) -> None:
    """Raise an `InputError` if a file or folder cannot be made at `path`; call it before any work."""
    path = Path(path).absolute()
    place = next(parent for parent in (path, *path.parents) if parent.exists())
    if not place.is_dir() and place != path:
        raise InputError(f"{path}: {place} is a file, not a folder; choose another output")
    if not os.access(place, os.W_OK):
        raise InputError(f"{path}: no permission to write to {place}; choose another output")


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
    root = Path(folder).absolute()  # it may have a `..` of its own, which is the user's
    inner = os.path.relpath(name, root) if Path(name).is_absolute() else os.path.normpath(name)
    if "\0" in name or Path(inner).parts[:1] == (os.pardir,):
        raise InputError(
            f"{name!r} leads out of the folder {folder}; move the file there, and give its path from there"
        )
    return root / inner


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
