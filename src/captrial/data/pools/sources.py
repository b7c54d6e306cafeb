"""Sources of a pool: folders, tar shards and URL lists.

Every image found becomes a `PoolCandidate`, in an order that depends only on names. Errors (a damaged shard, a line
that is not a URL) are candidates with a `problem`, so that they are listed and not lost.
"""

from __future__ import annotations

import csv
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePosixPath

from captrial.data.images import IMAGE_SUFFIXES
from captrial.errors import DatasetError
from captrial.files import content_hash, without_passwords

MAX_LABEL = 1024
SHARD_ERRORS = (tarfile.TarError, OSError, ValueError, EOFError)


@dataclass(frozen=True, slots=True)
class PoolCandidate:
    """An image that may enter the pool: a file, a part of a shard, or a URL to download."""

    id: str
    label: str | None = None
    path: Path | None = None
    shard: Path | None = None
    offset: int = 0
    size: int = 0
    changed: int = 0  # modification time in nanoseconds, of the file or the shard
    url: str | None = None
    problem: str | None = None  # why it cannot be used

    def read(self, max_bytes: int) -> bytes:
        """The bytes of the image; at most one more than `max_bytes`, so that `open_image` refuses larger files."""
        if self.shard is not None:
            with self.shard.open("rb") as stream:
                stream.seek(self.offset)
                return stream.read(min(self.size, max_bytes + 1))
        assert self.path is not None
        with self.path.open("rb") as stream:
            return stream.read(max_bytes + 1)


def iterate_folder(folder: Path, ignored: Counter[str] | None = None) -> Iterator[PoolCandidate]:
    """Image files below `folder` in sorted order, and the images of tar shards in it.

    The id is the path relative to `folder`, the class its first sub-folder. Files without the suffix of an image and
    hidden files are counted in `ignored` by suffix. Links to folders are followed, each folder once.
    """
    ignored = Counter() if ignored is None else ignored
    seen: set[tuple[int, int]] = set()
    closed: list[OSError] = []
    for directory, names, files in os.walk(folder, followlinks=True, onerror=closed.append):
        status = Path(directory).stat()
        if (status.st_dev, status.st_ino) in seen:
            names.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            path = Path(directory) / name
            suffix = path.suffix.lower()
            if name.startswith(".") or suffix not in IMAGE_SUFFIXES | {".tar"}:
                ignored[suffix or "no suffix"] += 1
            elif suffix == ".tar":
                yield from iterate_shard(path, ignored)
            else:
                yield _file(path, path.relative_to(folder))
    for error in closed:
        if Path(error.filename) == folder:
            raise DatasetError(f"{folder}: cannot be listed ({error.strerror}); check its permissions")
        name = Path(error.filename).relative_to(folder).as_posix()
        yield PoolCandidate(
            _clean(name), problem=f"the folder cannot be listed ({error.strerror}); check its permissions"
        )


def _file(path: Path, relative: Path) -> PoolCandidate:
    label = relative.parts[0] if len(relative.parts) > 1 else None
    identity = relative.as_posix()
    try:
        status = path.stat()
    except OSError as error:
        return PoolCandidate(_clean(identity), label, problem=f"cannot be read ({error.strerror})")
    if not identity.isprintable() or not _is_unicode(identity):
        return PoolCandidate(_clean(identity), label, problem="has a file name that is not readable text; rename it")
    return PoolCandidate(identity, label, path, size=status.st_size, changed=status.st_mtime_ns)


def iterate_shard(path: Path, ignored: Counter[str] | None = None) -> Iterator[PoolCandidate]:
    """Images of a tar shard in WebDataset format: `key.jpg`, with its class in `key.cls`, if there is one.

    The id is `shard name/member name`. Images stay in the shard and are read at their offset.
    """
    ignored = Counter() if ignored is None else ignored
    changed, damage = path.stat().st_mtime_ns, list[str]()
    try:
        with tarfile.open(path, "r:") as shard:
            for _, group in groupby(_members(shard, damage), key=_key):
                yield from _group(list(group), shard, path, changed, ignored)
    except SHARD_ERRORS as error:
        damage.append(" ".join(str(error).split()))
    for reason in damage:
        yield PoolCandidate(
            path.stem, problem=f"the shard {path.name} is damaged or compressed ({reason}); unpack or copy it"
        )


def _members(shard: tarfile.TarFile, damage: list[str]) -> Iterator[tarfile.TarInfo]:
    """The files of a shard; those before a damaged place are kept."""
    try:
        yield from (member for member in shard if member.isreg() and not member.issparse())
    except SHARD_ERRORS as error:
        damage.append(" ".join(str(error).split()))


def _key(member: tarfile.TarInfo) -> str:
    name = PurePosixPath(member.name)
    return f"{name.parent}/{name.name.partition('.')[0]}"


def _group(
    members: list[tarfile.TarInfo], shard: tarfile.TarFile, path: Path, changed: int, ignored: Counter[str]
) -> Iterator[PoolCandidate]:
    """The image of one WebDataset key; a second one such as `key.seg.png` is a mask and not part of the pool."""
    images = [member for member in members if PurePosixPath(member.name).suffix.lower() in IMAGE_SUFFIXES]
    plain = [member for member in images if PurePosixPath(member.name).name.count(".") == 1]
    chosen = plain or images
    label = next((_label(shard, member) for member in members if member.name.endswith(".cls")), None)
    for member in members:
        if member not in chosen and not member.name.endswith(".cls"):
            ignored["." + PurePosixPath(member.name).name.partition(".")[2]] += 1
    for member in chosen:
        identity = f"{path.stem}/{member.name}"
        if not _is_unicode(identity) or not identity.isprintable():
            yield PoolCandidate(_clean(identity), label, problem="has a name that is not readable text; rename it")
        elif member.offset_data + member.size > path.stat().st_size:
            yield PoolCandidate(identity, label, problem=f"the shard {path.name} ends inside it; copy the shard again")
        else:
            yield PoolCandidate(
                identity, label, shard=path, offset=member.offset_data, size=member.size, changed=changed
            )


def _label(shard: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
    stream = shard.extractfile(member)
    text = stream.read(MAX_LABEL).decode(errors="replace").strip() if stream else ""
    return text or None


def read_url_list(path: Path) -> list[PoolCandidate]:
    """Candidates of a URL list: a URL per line, `URL<TAB>id<TAB>class`, or a table with the columns url, id, class.

    The id of an image without one is a hash of its URL.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: is not a folder, a tar shard or a list of URLs ({error}); check --from") from None
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip() and line[:1] != "#"]
    if not rows:
        raise DatasetError(f"{path}: has no URLs; write one per line")
    header = _header(rows[0][1])
    if header is not None:
        delimiter, columns = header
        cells = [(number, next(csv.reader([line], delimiter=delimiter), [])) for number, line in rows[1:]]
        return [_from_url(path, number, _pick(row, columns)) for number, row in cells]
    found = [_from_url(path, number, [*line.split("\t"), "", ""]) for number, line in rows]
    if all(candidate.problem for candidate in found):
        raise DatasetError(f"{found[0].problem}, nor is any other line; a list of URLs has one per line")
    return found


def _header(line: str) -> tuple[str, list[int | None]] | None:
    for delimiter in ("\t", ","):
        names = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        if "url" in names:
            wanted = (("url",), ("id", "image_id", "picture_id"), ("class", "label"))
            return delimiter, [next((names.index(n) for n in group if n in names), None) for group in wanted]
    return None


def _pick(row: list[str], columns: list[int | None]) -> list[str]:
    return [row[index] if index is not None and index < len(row) else "" for index in columns]


def _from_url(path: Path, number: int, fields: list[str]) -> PoolCandidate:
    url, identity, label = (field.strip() for field in fields[:3])
    scheme, separator, rest = url.partition("://")
    candidate = PoolCandidate(identity or content_hash(without_passwords(url)), label or None, url=url)
    if not separator or scheme.lower() not in ("http", "https") or not rest or not _is_unicode(url):
        return replace(
            candidate,
            problem=f"{path.name}, line {number}: {without_passwords(url)[:80]!r} is not an http or https address",
        )
    return candidate


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _clean(text: str) -> str:
    """A name with escapes for characters that cannot be printed or stored."""
    return text.encode("utf-8", "backslashreplace").decode().encode("unicode_escape").decode()
