"""Where rows come from: a folder, WebDataset tar shards, Parquet files, or a list of URLs; cut into parts.

A `Part` is a picklable description of some rows, the unit that workers take; nothing is read before a worker does.
The parts of an input depend only on the input, so a restarted run finds the ones it has finished.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from captrial.data.readers import find_shards, read_folder, read_shards
from captrial.engines.job import Row
from captrial.errors import DatasetError

PART = 512  # pictures a part: minutes of captioning, seconds of scoring
URLS = (".txt", ".urls")


@dataclass(frozen=True)
class Part:
    """Some rows of an input: `start` up to `stop` of a file, or the entries named."""

    kind: str  # "files", "tar", "parquet" or "urls"
    path: str
    start: int = 0
    stop: int = 0
    entries: tuple[str, ...] = ()

    def rows(self) -> Iterator[Row]:
        """Read the rows, one by one."""
        return _READERS[self.kind](self)


def find_parts(source: Path | str, size: int = PART) -> list[Part]:
    """The parts of an input, in order; what it is, its name and content say."""
    path = Path(source)
    if path.is_dir():
        return _folder_parts(path, size)
    if path.suffix == ".parquet":
        return _parquet_parts([path], size)
    if path.suffix in URLS and path.is_file():
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
        return _chunks("urls", path, lines, size)
    shards = find_shards(path)
    if not shards or not shards[0].is_file():
        raise DatasetError(f"{path}: no such input; give a folder, .tar shards, .parquet files or a .txt of URLs")
    return [Part("tar", str(shard)) for shard in shards]


def _folder_parts(folder: Path, size: int) -> list[Part]:
    """A folder holds tar shards, Parquet files, or pictures."""
    if parquet := sorted(folder.glob("*.parquet")):
        return _parquet_parts(parquet, size)
    if shards := find_shards(folder):
        return [Part("tar", str(shard)) for shard in shards]
    parts = _chunks("files", folder, (sample.id for sample in read_folder(folder)), size)
    if not parts:
        raise DatasetError(f"{folder}: no pictures, no shards and no Parquet files in it")
    return parts


def _parquet_parts(paths: Sequence[Path], size: int) -> list[Part]:
    return [
        Part("parquet", str(path), start, min(start + size, rows))
        for path in paths
        for rows in [pq.read_metadata(path).num_rows]
        for start in range(0, rows, size)
    ]


def _chunks(kind: str, path: Path, names: Iterator[str] | Sequence[str], size: int) -> list[Part]:
    numbered = iter(names)
    return [Part(kind, str(path), entries=chunk) for chunk in iter(lambda: tuple(itertools.islice(numbered, size)), ())]


def _read_files(part: Part) -> Iterator[Row]:
    for name in part.entries:
        yield {"id": name, "path": str(Path(part.path) / name)}


def _read_tar(part: Part) -> Iterator[Row]:
    for sample in read_shards(part.path):
        row: Row = {"id": sample.id, "image": sample.extra.get("image"), "captions": list(sample.captions)}
        yield {**row, "error": sample.extra["error"]} if "error" in sample.extra else row


def _read_parquet(part: Part) -> Iterator[Row]:
    """Rows of a file, a row group at a time; a file without ids numbers its rows."""
    position = 0
    with pq.ParquetFile(part.path) as file:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if position < part.stop and position + rows > part.start:
                table = file.read_row_group(group)
                first, last = max(part.start - position, 0), min(part.stop - position, rows)
                for number, row in enumerate(table.slice(first, last - first).to_pylist(), position + first):
                    yield {**row, "id": _row_id(row, f"{Path(part.path).name}#{number}")}
            position += rows


def _row_id(row: Row, otherwise: str) -> str:
    found = next((row[name] for name in ("id", "image_id", "key", "url") if row.get(name) is not None), otherwise)
    return str(found)


def _read_urls(part: Part) -> Iterator[Row]:
    for url in part.entries:
        yield {"id": url, "url": url}


_READERS = {"files": _read_files, "tar": _read_tar, "parquet": _read_parquet, "urls": _read_urls}
