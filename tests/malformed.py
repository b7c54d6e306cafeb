"""Malformed files for the tests of readers: valid files, changed in ways that files go wrong or are made to go wrong.

    @given(mutations())
    def test_reader(changes):
        with malformed(FILES, changes) as folder, limits():
            read(folder)  # may raise CaptrialError, nothing else

Changes work on bytes (flipped, cut, deleted, repeated, inserted), on numbers in texts, on the values of JSON documents
and on files (missing, emptied, exchanged, folders instead of files).
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import strategies as st

MEMORY = 1 << 30  # bytes that reading one malformed file may take
SECONDS = 20

BYTES = [
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\n", b"\r\n", b"\t", b'"', b"'", b"\\", b"{", b"]",
    b"}", b",", b"<", b"&a;", b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"[/EN#", b"../../etc/passwd", b"PAR1", b"PK\x03\x04",
    b"\x1f\x8b", b"NaN", b"null", b"\x7f" * 4, b"\xff" * 8, b"\0" * 64, b"A" * 3000, b"[" * 2000, b"\xf0\x9f\x98\x80",
]  # fmt: skip
NUMBERS = [b"-1", b"0", b"1e400", b"-1e400", b"NaN", b"99999999999999999999", b"4294967296", b"-2147483649", b"1e9",
           b"0.5", b"true", b'"7"', b"null", b"9" * 5000]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, -1, 0, 10**9, 10**18, 1e308, -0.5, "", "x", "\x00", "a" * 2000, "../../etc/passwd",
    "/etc/passwd", "\ud800", [], {}, [[]], [None], [0, 0], [1e300] * 4, {"": None},
    {"size": [10**9, 10**9], "counts": "0"}, [[1, 2, 3]],
]  # fmt: skip
KINDS = ["flip", "cut", "delete", "insert", "repeat", "number", "json", "json", "drop", "exchange", "missing", "folder"]


@dataclass(frozen=True)
class Change:
    """One change: what, to which file, where in it (0 to 1), and a number that chooses among variants."""

    kind: str
    file: float
    place: float
    variant: int


def mutations() -> st.SearchStrategy[list[Change]]:
    """One to four changes."""
    share = st.floats(0, 1, exclude_max=True)
    return st.lists(
        st.builds(Change, st.sampled_from(KINDS), share, share, st.integers(0, 10_000)), min_size=1, max_size=4
    )


@contextmanager
def malformed(files: Mapping[str, bytes], changes: Sequence[Change]) -> Iterator[Path]:
    """A folder with the files, changed."""
    contents: dict[str, bytes | None] = dict(files)
    folders = set()
    for change in changes:
        name = list(files)[int(change.file * len(files))]
        if change.kind == "folder":
            folders.add(name)
        contents[name] = _changed(contents[name] or b"", change, list(files.values()))
    root = Path(tempfile.mkdtemp(prefix="captrial-fuzz-"))
    try:
        for name, content in contents.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in folders:
                path.mkdir()
            elif content is not None:
                path.write_bytes(content)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _changed(content: bytes, change: Change, others: list[bytes]) -> bytes | None:
    place = int(change.place * (len(content) + 1))
    size = 1 + change.variant % 64
    if change.kind == "flip" and content:
        place = min(place, len(content) - 1)
        return content[:place] + bytes([content[place] ^ (1 + change.variant % 255)]) + content[place + 1 :]
    if change.kind == "cut":
        return content[:place]
    if change.kind == "delete":
        return content[:place] + content[place + size :]
    if change.kind == "insert":
        return content[:place] + BYTES[change.variant % len(BYTES)] + content[place:]
    if change.kind == "repeat":
        return content[:place] + content[place : place + size] * (2 + change.variant % 40) + content[place + size :]
    if change.kind == "number":
        return _with_number(content, change)
    if change.kind in ("json", "drop"):
        return _with_value(content, change)
    if change.kind == "exchange":
        return others[change.variant % len(others)]
    return None if change.kind == "missing" else content


def _with_number(content: bytes, change: Change) -> bytes:
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", content[:200_000]))
    if not found:
        return content
    number = found[int(change.place * len(found))]
    return content[: number.start()] + NUMBERS[change.variant % len(NUMBERS)] + content[number.end() :]


def _with_value(content: bytes, change: Change) -> bytes:
    """A JSON document, or one of its lines, with one value replaced or left out."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        lines = content.split(b"\n")
        line = int(change.place * len(lines))
        try:
            changed = _replaced(json.loads(lines[line]), change)
        except (ValueError, RecursionError):
            return content
        return b"\n".join([*lines[:line], json.dumps(changed).encode(), *lines[line + 1 :]])
    return json.dumps(_replaced(document, change)).encode()


def _replaced(document: Any, change: Change) -> Any:
    value = VALUES[change.variant % len(VALUES)]
    holder = {"": document}
    places: list[tuple[Any, Any]] = [(holder, "")]
    for parent, key in places:
        child = parent[key]
        if len(places) < 3000:
            keys = child if isinstance(child, dict) else range(len(child)) if isinstance(child, list) else ()
            places += [(child, inner) for inner in keys]
    parent, key = places[int(change.place * len(places))]
    if change.kind == "drop" and key != "":
        del parent[key]
    else:
        parent[key] = value
    return holder.get("")


@contextmanager
def limits() -> Iterator[None]:
    """At most `SECONDS` and `MEMORY` more than now; beyond, a `TimeoutError` or a `MemoryError`."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"took more than {SECONDS} seconds")

    handler = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with memory_limit(MEMORY):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)


@contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """At most so many bytes more than now."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
