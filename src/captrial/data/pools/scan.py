"""Looking at every candidate once: is it an image, how large, what does it look like.

Results are kept in parts whose names are fingerprints of what they are about, so that a run that was killed, or a pool
that grows, looks again only at what is new or has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from captrial.data.images import RefusedImageError, image_size, open_image
from captrial.data.pools.duplicates import DRAFT, SIGNATURE_BYTES, signature
from captrial.data.pools.sources import PoolCandidate
from captrial.files import atomic_path, content_hash
from captrial.progress import progress_bar

SCHEMA = pa.schema(
    {
        "width": pa.int32(),
        "height": pa.int32(),
        "hash": pa.string(),  # blake2b of the file's bytes
        "looks": pa.uint64(),  # perceptual hash
        "signature": pa.binary(SIGNATURE_BYTES),
        "reason": pa.string(),  # null for an image that can be read
    }
)
PART = 512  # images in a part, on average
VERSION = "1"  # of the signature: another number, and everything is looked at again


def scan(candidates: list[PoolCandidate], folder: Path, *, max_pixels: int, max_bytes: int, workers: int) -> pa.Table:
    """One row of `SCHEMA` a candidate, in order; parts are kept in `folder`, those of no further use removed."""
    folder.mkdir(parents=True, exist_ok=True)
    tables, used = [SCHEMA.empty_table()], set()
    with _threads(workers) as threads, progress_bar() as bar:
        task = bar.add_task("looking at images", total=len(candidates))
        for part in _parts(candidates):
            path = folder / f"{_fingerprint(part, max_pixels, max_bytes)}.parquet"
            table = _kept(path)
            if table is None:
                rows = []
                for row in threads.map(lambda candidate: look(candidate, max_pixels, max_bytes), part):
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
        if path.name not in used:
            path.unlink()
    return pa.concat_tables(tables).combine_chunks()


def look(candidate: PoolCandidate, max_pixels: int, max_bytes: int) -> dict[str, object]:
    """One row of `SCHEMA`: what there is to know about a candidate, or why it is unreadable."""
    row: dict[str, object] = dict.fromkeys(SCHEMA.names)
    if candidate.trouble is not None:
        return {**row, "reason": candidate.trouble}
    try:
        content = candidate.read(max_bytes)
        width, height = image_size(content)
        row |= {"width": width, "height": height, "hash": hashlib.blake2b(content, digest_size=16).hexdigest()}
        image = open_image(content, max_pixels=max_pixels, max_bytes=max_bytes, draft=DRAFT)
        row["looks"], row["signature"] = signature(image)
    except RefusedImageError as error:
        row["reason"] = error.problem.reason
    except OSError as error:
        row["reason"] = f"cannot be read ({error.strerror or error})"
    return row


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that an interruption stops after the images in their hands, not after those in the queue."""
    threads = ThreadPoolExecutor(workers)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def _parts(candidates: list[PoolCandidate]) -> Iterator[list[PoolCandidate]]:
    """Runs of candidates, cut where a name's fingerprint says so: one more file shifts one boundary, not all."""
    part: list[PoolCandidate] = []
    for candidate in candidates:
        part.append(candidate)
        if int(content_hash(candidate.id, 8), 16) % PART == 0 or len(part) == 4 * PART:
            yield part
            part = []
    if part:
        yield part


def _fingerprint(part: list[PoolCandidate], max_pixels: int, max_bytes: int) -> str:
    lines = [f"{VERSION} {max_pixels} {max_bytes}"]
    lines += [f"{c.path or c.shard}|{c.offset}|{c.size}|{c.changed}|{c.trouble}" for c in part]
    return content_hash("\n".join(lines).encode("utf-8", "backslashreplace"), 32)


def _kept(path: Path) -> pa.Table | None:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    return table if table.schema.equals(SCHEMA) else None
