"""Whether files that a job reads are still the ones that its finished parts were made with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from captrial.files import content_hash


def digest(path: Path | str) -> str:
    """The content of a file, as a hash."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def stamp(path: Path | str) -> str | None:
    """Size and time of a file, or of the files of a folder: weights are too large to be read twice.

    A run folder stands for its best checkpoint, as when it is loaded; None where there is no such file or folder.
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
    """The stamps of those that exist here, by what they are to the job."""
    found = {name: stamp(path) for name, path in paths.items() if path is not None}
    return {name: value for name, value in found.items() if value is not None}
