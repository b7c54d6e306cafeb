"""Building a pool: gather, fetch, look, find copies, write down what stays and why the rest does not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.data.images import MAX_BYTES, MAX_PIXELS
from captrial.data.pools.download import DownloadSettings, download
from captrial.data.pools.duplicates import SIGNATURE_BYTES, exact_copies, near_copies
from captrial.data.pools.pool import (
    MANIFEST,
    SUMMARY,
    ImagePool,
    count_classes,
)
from captrial.data.pools.scan import scan
from captrial.data.pools.sources import (
    PoolCandidate,
    iterate_folder,
    iterate_shard,
    read_url_list,
)
from captrial.errors import DatasetError, InputError
from captrial.files import atomic_path, atomic_write
from captrial.progress import track

NEAR_DUPLICATE_DISTANCE = 10  # of 64 bits; measured in docs/data.md


def build_pool(
    sources: Sequence[Path | str],
    out: Path | str,
    *,
    max_pixels: int = MAX_PIXELS,
    near_duplicate_distance: int | None = NEAR_DUPLICATE_DISTANCE,
    workers: int | None = None,
    unpack: bool = False,
    downloads: DownloadSettings | None = None,
) -> ImagePool:
    """Gather images from `sources` into the pool `out`; run again, it continues, or takes in what is new.

    A source is a folder (its sub-folders are classes), a tar shard, or a text file of URLs; `name=path` puts `name/`
    before its ids. Unreadable images and copies are listed and left out; of copies, the first by id stays. With
    `unpack`, images in shards are also written as files, for whatever needs a path. `near_duplicate_distance=None`
    looks for exact copies only. The same sources give the same pool, for any number of workers.
    """
    out, downloads = Path(out), downloads or DownloadSettings()
    if not sources:
        raise InputError(f"{out}: a pool needs at least one source: a folder, a tar shard or a list of URLs")
    _check_out(out, sources)
    ignored: Counter[str] = Counter()
    candidates = [candidate for source in sources for candidate in _gather(source, ignored)]
    if not candidates:
        raise DatasetError(f"{', '.join(map(str, sources))}: no images there; check --from")
    _check_ids(candidates)
    candidates = _fetched(candidates, out / "images", downloads)
    if unpack:
        candidates = [_unpacked(c, out / "images") for c in track(candidates, "unpacking")]
    workers = workers or os.cpu_count() or 1
    looks = scan(candidates, out / "scan", max_pixels=max_pixels, max_bytes=MAX_BYTES, workers=workers)
    manifest = _manifest(candidates, looks, near_duplicate_distance, out)
    settings: dict[str, object] = {
        "max_pixels": max_pixels,
        "near_duplicate_distance": near_duplicate_distance,
        "unpack": unpack,
        "downloads": asdict(downloads),
    }
    return _written(manifest, out, [str(source) for source in sources], ignored, settings)


def _check_out(out: Path, sources: Iterable[Path | str]) -> None:
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not _is_pool(out))):
        raise InputError(f"{out}: is there already and is not a pool; choose a new folder")
    for source in sources:
        path = _split_name(source)[1]
        if path.is_dir() and (
            out.resolve().is_relative_to(path.resolve()) or path.resolve().is_relative_to(out.resolve())
        ):
            raise InputError(f"{out}: the pool and its source {path} are inside each other; choose a folder elsewhere")


def _is_pool(folder: Path) -> bool:
    return {path.name for path in folder.iterdir() if path.name[0] != "."} <= {MANIFEST, SUMMARY, "scan", "images"}


def _split_name(source: Path | str) -> tuple[str, Path]:
    """`name=path` taken apart, unless there is a file of that very name."""
    name, separator, path = str(source).partition("=")
    return (name, Path(path)) if separator and not Path(source).exists() else ("", Path(source))


def _gather(source: Path | str, ignored: Counter[str]) -> Iterable[PoolCandidate]:
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
    """Ids are unique, but for a URL that stands in a list twice: that is a copy like any other."""
    seen: dict[str, PoolCandidate] = {}
    for index, candidate in enumerate(candidates):
        other = seen.setdefault(candidate.id, candidate)
        if other is candidate:
            continue
        if candidate.url is not None and candidate.url == other.url:
            candidates[index] = replace(candidate, id=f"{candidate.id}#{index}")
            continue
        places = [str(c.path or c.shard or c.url) for c in (other, candidate)]
        raise DatasetError(
            f"two images have the id {candidate.id!r} ({places[0]} and {places[1]}); "
            "give one source a name, as in --from name=path"
        )


def _fetched(candidates: list[PoolCandidate], folder: Path, settings: DownloadSettings) -> list[PoolCandidate]:
    """Candidates of URL lists with their file, or with the trouble there was."""
    urls = [candidate.url for candidate in candidates if candidate.url and not candidate.trouble]
    if not urls:
        return candidates
    results = download(urls, folder, settings)
    return [_with_file(c, results[c.url]) if c.url and not c.trouble else c for c in candidates]


def _with_file(candidate: PoolCandidate, outcome: Path | str) -> PoolCandidate:
    if isinstance(outcome, str):
        return replace(candidate, trouble=outcome)
    status = outcome.stat()
    return replace(candidate, path=outcome, size=status.st_size, changed=status.st_mtime_ns)


def _unpacked(candidate: PoolCandidate, folder: Path) -> PoolCandidate:
    """An image of a shard as a file of its own; never outside `folder`, whatever the member is called."""
    if candidate.shard is None or candidate.trouble or candidate.size > MAX_BYTES:
        return candidate
    parts = PurePosixPath(candidate.id).parts
    if ".." in parts or parts[0] == "/":
        return replace(candidate, trouble=f"its name {candidate.id!r} leads out of the pool; rename it")
    path = folder.joinpath(*parts)
    if not path.exists() or path.stat().st_size != candidate.size:
        atomic_write(path, candidate.read(MAX_BYTES))
    os.utime(path, ns=(candidate.changed, candidate.changed))
    return replace(candidate, path=path, shard=None, offset=0)


def _manifest(candidates: list[PoolCandidate], looks: pa.Table, distance: int | None, out: Path) -> pa.Table:
    """Everything that was found, sorted by id, with what became of it."""
    order = sorted(range(len(candidates)), key=lambda index: candidates[index].id)
    candidates, looks = [candidates[index] for index in order], looks.take(pa.array(order, pa.int64()))
    reasons: list[str | None] = looks["reason"].to_pylist()
    status = ["kept" if reason is None else "unreadable" for reason in reasons]
    copies: list[str | None] = [None] * len(candidates)
    for index, model, kind in _copies(looks, distance):
        status[index], copies[index] = f"{kind} duplicate", candidates[model].id
        reasons[index] = f"{'has the same bytes as' if kind == 'exact' else 'looks like'} {candidates[model].id}"
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
        "url": pa.array([c.url for c in candidates], pa.string()),
        **{name: looks[name] for name in ("width", "height", "hash", "looks")},
        "status": pa.array(status, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "copy_of": pa.array(copies, pa.string()),
    }
    return pa.table(columns)


def _copies(looks: pa.Table, distance: int | None) -> Iterable[tuple[int, int, str]]:
    """(copy, what it copies, kind) among the readable images, by position."""
    readable = np.flatnonzero(looks["looks"].is_valid().to_numpy() & looks["reason"].is_null().to_numpy())
    if not len(readable):
        return
    looks = looks.take(pa.array(readable)).combine_chunks()
    exact = exact_copies(looks["hash"].to_pylist())
    yield from ((int(readable[i]), int(readable[exact[i]]), "exact") for i in np.flatnonzero(exact >= 0))
    if distance is None:
        return
    values = looks["signature"].combine_chunks().buffers()[1]  # of fixed width: the bytes of all, end to end
    signatures = np.frombuffer(values, np.uint8)[: len(readable) * SIGNATURE_BYTES].reshape(-1, SIGNATURE_BYTES)
    near = near_copies(looks["looks"].to_numpy(), signatures, exact >= 0, distance)
    yield from ((int(readable[i]), int(readable[near[i]]), "near") for i in np.flatnonzero(near >= 0))


def _stored(path: Path | None, out: Path) -> str | None:
    """A path as it stands in the manifest: relative for what lies in the pool, so that the pool can move."""
    if path is None:
        return None
    return path.relative_to(out).as_posix() if path.is_relative_to(out) else str(path.resolve())


def _written(
    manifest: pa.Table, out: Path, sources: list[str], ignored: Counter[str], settings: dict[str, object]
) -> ImagePool:
    kept = manifest.filter(pa.compute.equal(manifest["status"], "kept"))
    counts = Counter(manifest["status"].to_pylist())
    summary = {
        "format": "captrial pool 1",
        "images": kept.num_rows,
        "found": manifest.num_rows,
        "left_out": {status: counts[status] for status in sorted(counts) if status != "kept"},
        "bytes": int(pa.compute.sum(kept["size"]).as_py() or 0),
        "classes": count_classes(kept["class"].to_pylist()),
        "ignored_files": dict(sorted(ignored.items())),
        "sources": sources,
        "settings": settings,
    }
    with atomic_path(out / MANIFEST) as temporary:
        pq.write_table(manifest, temporary, compression="zstd")
    atomic_write(out / SUMMARY, orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    return ImagePool.load(out)
