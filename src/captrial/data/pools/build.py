"""Building a pool: collect candidates, download, scan every image, find duplicates, write the manifest.

Scan results are stored in parts named by a fingerprint of their candidates. A run that was killed, or a pool that
grows, scans only images that are new or have changed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.data.images import MAX_BYTES, MAX_PIXELS, RefusedImageError, image_size, open_image
from captrial.data.pools.download import DownloadSettings, download
from captrial.data.pools.duplicates import DRAFT, SIGNATURE_BYTES, exact_duplicates, near_duplicates, signature
from captrial.data.pools.image_pool import MANIFEST, SUMMARY, ImagePool, count_classes
from captrial.data.pools.sources import PoolCandidate, iterate_folder, iterate_shard, read_url_list
from captrial.errors import DatasetError, InputError
from captrial.files import atomic_path, atomic_write, content_hash, without_passwords
from captrial.folders import LOCK, lock_folder, read_checksums, write_checked
from captrial.progress import progress_bar, track

NEAR_DUPLICATE_DISTANCE = 10  # of 64 bits; measured in docs/data.md
SCHEMA = pa.schema(
    {
        "width": pa.int32(),
        "height": pa.int32(),
        "hash": pa.string(),  # blake2b of the file's bytes
        "looks": pa.uint64(),  # the perceptual hash
        "signature": pa.binary(SIGNATURE_BYTES),
        "reason": pa.string(),  # null for an image that can be read
    }
)
PART = 512  # average number of images in a part
PART_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
FORMAT = "captrial pool 1"
VERSION = "1"  # of the signature; a change scans all images again


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Options of `build_pool`."""

    max_pixels: int = MAX_PIXELS  # larger images are refused before they are decoded
    near_duplicate_distance: int | None = NEAR_DUPLICATE_DISTANCE  # of 64 bits; None: exact duplicates only
    workers: int | None = None  # threads; None: one per core
    unpack: bool = False  # whether images in shards are also written as files
    downloads: DownloadSettings = field(default_factory=DownloadSettings)

    def document(self) -> dict[str, object]:
        """The settings that affect the content of the pool, as written to `summary.json`."""
        return {
            "max_pixels": self.max_pixels,
            "near_duplicate_distance": self.near_duplicate_distance,
            "unpack": self.unpack,
            "downloads": asdict(self.downloads),
        }


def build_pool(sources: Sequence[Path | str], out: Path | str, settings: PoolSettings | None = None) -> ImagePool:
    """Collect images from `sources` into the pool `out`; run again, it continues or adds new images.

    A source is a folder (its sub-folders are classes), a tar shard, or a text file of URLs; `name=path` puts `name/`
    before its ids. Unreadable images and duplicates are left out and listed; of duplicates, the first by id stays. With
    `unpack`, images in shards are also written as files, for tools that need a path. The same sources give the same
    pool for any number of workers. A second process that builds the same pool at the same time gets a `StateError`.
    """
    out, settings = Path(out), settings or PoolSettings()
    if not sources:
        raise InputError(f"{out}: a pool needs at least one source: a folder, a tar shard or a list of URLs")
    _check_out(out, sources)
    with lock_folder(out, "pool"):
        _build(sources, out, settings)
    return ImagePool.load(out)


def _build(sources: Sequence[Path | str], out: Path, settings: PoolSettings) -> None:
    ignored: Counter[str] = Counter()
    candidates = [candidate for source in sources for candidate in _collect(source, ignored)]
    if not candidates:
        raise DatasetError(f"{', '.join(map(str, sources))}: no images there; check --from")
    _check_ids(candidates)
    if not (out / SUMMARY).exists():  # from here on, the folder can be recognised as a pool
        _write_summary(out, {"format": FORMAT})
    candidates = _downloaded(candidates, out / "images", settings.downloads)
    if settings.unpack:
        candidates = [_unpacked(c, out / "images") for c in track(candidates, "unpacking")]
    scanned = scan(candidates, out / "scan", settings.max_pixels, settings.workers or os.cpu_count() or 1)
    manifest = _manifest(candidates, scanned, settings.near_duplicate_distance, out)
    _write(manifest, out, [str(source) for source in sources], ignored, settings)


def _check_out(out: Path, sources: Iterable[Path | str]) -> None:
    if out.exists() and (not out.is_dir() or (any(path.name != LOCK for path in out.iterdir()) and not _is_pool(out))):
        raise InputError(f"{out}: already exists and is not a pool; choose a new folder")
    for source in sources:
        path = _split_name(source)[1]
        if path.is_dir() and (
            out.resolve().is_relative_to(path.resolve()) or path.resolve().is_relative_to(out.resolve())
        ):
            raise InputError(f"{out}: the pool and its source {path} are inside each other; choose another folder")


def _is_pool(folder: Path) -> bool:
    """Whether captrial made this folder: the summary says so, or, where it is damaged, the list of checksums."""
    try:
        summary = orjson.loads((folder / SUMMARY).read_bytes())
        if isinstance(summary, dict) and str(summary.get("format")).startswith("captrial pool"):
            return True
    except (OSError, ValueError):
        pass
    return SUMMARY in read_checksums(folder, lenient=True)


def _split_name(source: Path | str) -> tuple[str, Path]:
    """(name, path) of `name=path`, unless a file of that whole name exists."""
    name, separator, path = str(source).partition("=")
    return (name, Path(path)) if separator and not Path(source).exists() else ("", Path(source))


def _collect(source: Path | str, ignored: Counter[str]) -> Iterable[PoolCandidate]:
    name, path = _split_name(source)
    if not path.exists():
        raise DatasetError(f"{path}: no such folder, tar shard or list of URLs; check --from")
    if path.is_dir():
        found: Iterable[PoolCandidate] = iterate_folder(path, ignored)
    elif path.suffix.lower() == ".tar":
        found = iterate_shard(path, ignored)
    else:
        found = read_url_list(path)
    for candidate in track(found, f"reading {path.name}"):
        yield replace(candidate, id=f"{name}/{candidate.id}") if name else candidate


def _check_ids(candidates: list[PoolCandidate]) -> None:
    """Refuse repeated ids, except for a URL that is listed twice: that is a duplicate like any other."""
    seen: dict[str, PoolCandidate] = {}
    for index, candidate in enumerate(candidates):
        other = seen.setdefault(candidate.id, candidate)
        if other is candidate:
            continue
        if candidate.url is not None and candidate.url == other.url:
            candidates[index] = replace(candidate, id=f"{candidate.id}#{index}")
            continue
        places = [without_passwords(str(c.path or c.shard or c.url)) for c in (other, candidate)]
        raise DatasetError(
            f"two images have the id {candidate.id!r} ({places[0]} and {places[1]}); "
            "give one source a name, as in --from name=path"
        )


def _downloaded(candidates: list[PoolCandidate], folder: Path, settings: DownloadSettings) -> list[PoolCandidate]:
    """Candidates of URL lists with their file, or with the problem of their download."""
    urls = [candidate.url for candidate in candidates if candidate.url and not candidate.problem]
    if not urls:
        return candidates
    results = download(urls, folder, settings)
    return [_with_file(c, results[c.url]) if c.url and not c.problem else c for c in candidates]


def _with_file(candidate: PoolCandidate, result: Path | str) -> PoolCandidate:
    if isinstance(result, str):
        return replace(candidate, problem=result)
    status = result.stat()
    return replace(candidate, path=result, size=status.st_size, changed=status.st_mtime_ns)


def _unpacked(candidate: PoolCandidate, folder: Path) -> PoolCandidate:
    """Write an image of a shard as a file; never outside `folder`, whatever the name of the member."""
    if candidate.shard is None or candidate.problem or candidate.size > MAX_BYTES:
        return candidate
    parts = PurePosixPath(candidate.id).parts
    if ".." in parts or parts[0] == "/":
        return replace(candidate, problem=f"its name {candidate.id!r} leads out of the pool; rename it")
    path = folder.joinpath(*parts)
    if not path.exists() or path.stat().st_size != candidate.size:
        atomic_write(path, candidate.read(MAX_BYTES))
    os.utime(path, ns=(candidate.changed, candidate.changed))
    return replace(candidate, path=path, shard=None, offset=0)


def scan(candidates: list[PoolCandidate], folder: Path, max_pixels: int, workers: int) -> pa.Table:
    """One row of `SCHEMA` per candidate, in order; parts are stored in `folder`, and unused ones removed."""
    folder.mkdir(parents=True, exist_ok=True)
    tables, used = [SCHEMA.empty_table()], set()
    with _threads(workers) as threads, progress_bar() as bar:
        task = bar.add_task("scanning images", total=len(candidates))
        for part in _parts(candidates):
            path = folder / f"{_fingerprint(part, max_pixels)}.parquet"
            table = _stored_part(path)
            if table is None:
                rows = []
                for row in threads.map(lambda candidate: scan_image(candidate, max_pixels), part):
                    rows.append(row)
                    bar.advance(task)
                table = pa.Table.from_pylist(rows, schema=SCHEMA)
                with atomic_path(path) as temporary:
                    pq.write_table(table, temporary, compression="zstd")
            else:
                bar.advance(task, len(part))
            tables.append(table)
            used.add(path.name)
    for path in folder.glob("*.parquet"):
        if path.name not in used and PART_NAME.fullmatch(path.name):
            path.unlink()
    return pa.concat_tables(tables).combine_chunks()


def scan_image(candidate: PoolCandidate, max_pixels: int = MAX_PIXELS) -> dict[str, object]:
    """One row of `SCHEMA`: size, hashes and signature of a candidate, or the reason why it is unreadable."""
    row: dict[str, object] = dict.fromkeys(SCHEMA.names)
    if candidate.problem is not None:
        return {**row, "reason": candidate.problem}
    try:
        content = candidate.read(MAX_BYTES)
        width, height = image_size(content)
        row |= {"width": width, "height": height, "hash": hashlib.blake2b(content, digest_size=16).hexdigest()}
        image = open_image(content, max_pixels=max_pixels, max_bytes=MAX_BYTES, draft=DRAFT)
        row["looks"], row["signature"] = signature(image)
    except RefusedImageError as error:
        row["reason"] = error.problem.reason
    except OSError as error:
        row["reason"] = f"cannot be read ({error.strerror or error})"
    return row


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that, when interrupted, finish their current images but not the queue."""
    threads = ThreadPoolExecutor(workers)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def _parts(candidates: list[PoolCandidate]) -> Iterator[list[PoolCandidate]]:
    """Consecutive candidates, cut where the hash of an id says so: one more file moves one boundary, not all."""
    part: list[PoolCandidate] = []
    for candidate in candidates:
        part.append(candidate)
        if int(content_hash(candidate.id, 8), 16) % PART == 0 or len(part) == 4 * PART:
            yield part
            part = []
    if part:
        yield part


def _fingerprint(part: list[PoolCandidate], max_pixels: int) -> str:
    lines = [f"{VERSION} {max_pixels} {MAX_BYTES}"]
    lines += [f"{c.path or c.shard}|{c.offset}|{c.size}|{c.changed}|{c.problem}" for c in part]
    return content_hash("\n".join(lines).encode("utf-8", "backslashreplace"), 32)


def _stored_part(path: Path) -> pa.Table | None:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    return table if table.schema.equals(SCHEMA) else None


def _manifest(candidates: list[PoolCandidate], scanned: pa.Table, distance: int | None, out: Path) -> pa.Table:
    """All candidates, sorted by id, with status, reason and the image they duplicate."""
    order = sorted(range(len(candidates)), key=lambda index: candidates[index].id)
    candidates, scanned = [candidates[index] for index in order], scanned.take(pa.array(order, pa.int64()))
    reasons: list[str | None] = scanned["reason"].to_pylist()
    status = ["kept" if reason is None else "unreadable" for reason in reasons]
    originals: list[str | None] = [None] * len(candidates)
    for index, original, kind in _duplicates(scanned, distance):
        status[index], originals[index] = f"{kind} duplicate", candidates[original].id
        reasons[index] = f"{'has the same bytes as' if kind == 'exact' else 'looks like'} {candidates[original].id}"
    for index, candidate in enumerate(candidates):
        if candidate.url is not None and candidate.path is None:
            status[index] = "not downloaded"
    columns = {
        "id": [c.id for c in candidates],
        "class": pa.array([c.label for c in candidates], pa.string()),
        "path": pa.array([_stored(c.path, out) for c in candidates], pa.string()),
        "shard": pa.array([_stored(c.shard, out) for c in candidates], pa.string()),
        "offset": pa.array([c.offset for c in candidates], pa.int64()),
        "size": pa.array([c.size for c in candidates], pa.int64()),
        "url": pa.array([c.url and without_passwords(c.url) for c in candidates], pa.string()),
        **{name: scanned[name] for name in ("width", "height", "hash", "looks")},
        "status": pa.array(status, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "copy_of": pa.array(originals, pa.string()),
    }
    return pa.table(columns)


def _duplicates(scanned: pa.Table, distance: int | None) -> Iterable[tuple[int, int, str]]:
    """(duplicate, original, kind) among the readable images, by position."""
    readable = np.flatnonzero(scanned["looks"].is_valid().to_numpy() & scanned["reason"].is_null().to_numpy())
    if not len(readable):
        return
    scanned = scanned.take(pa.array(readable)).combine_chunks()
    exact = exact_duplicates(scanned["hash"].to_pylist())
    yield from ((int(readable[i]), int(readable[exact[i]]), "exact") for i in np.flatnonzero(exact >= 0))
    if distance is None:
        return
    values = scanned["signature"].combine_chunks().buffers()[1]  # fixed width: all signatures, one after the other
    signatures = np.frombuffer(values, np.uint8)[: len(readable) * SIGNATURE_BYTES].reshape(-1, SIGNATURE_BYTES)
    near = near_duplicates(scanned["looks"].to_numpy(), signatures, exact >= 0, distance)
    yield from ((int(readable[i]), int(readable[near[i]]), "near") for i in np.flatnonzero(near >= 0))


def _stored(path: Path | None, out: Path) -> str | None:
    """A path as written to the manifest: relative inside the pool, so that the pool can be moved."""
    if path is None:
        return None
    return path.relative_to(out).as_posix() if path.is_relative_to(out) else str(path.resolve())


def _write(manifest: pa.Table, out: Path, sources: list[str], ignored: Counter[str], settings: PoolSettings) -> None:
    kept = manifest.filter(pa.compute.equal(manifest["status"], "kept"))
    counts = Counter(manifest["status"].to_pylist())
    summary = {
        "format": FORMAT,
        "images": kept.num_rows,
        "found": manifest.num_rows,
        "left_out": {status: counts[status] for status in sorted(counts) if status != "kept"},
        "bytes": int(pa.compute.sum(kept["size"]).as_py() or 0),
        "classes": count_classes(kept["class"].to_pylist()),
        "ignored_files": dict(sorted(ignored.items())),
        "sources": sources,
        "settings": settings.document(),
    }
    _write_summary(out, summary, manifest)


def _write_summary(out: Path, summary: Mapping[str, object], manifest: pa.Table | None = None) -> None:
    with write_checked(out) as staging:
        if manifest is not None:
            pq.write_table(manifest, staging / MANIFEST, compression="zstd")
        (staging / SUMMARY).write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
