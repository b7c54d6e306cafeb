"""The rows that a job reads: from a folder, WebDataset tar shards, Parquet files or a list of URLs; and their images.

An `InputPart` is a picklable description of some rows, the unit of work; nothing is read before a worker does. The
parts of an input depend only on the input, so that a restarted run finds the ones it has finished. `open_rows` opens
the image of every row, from bytes in the row, a file or a URL.
"""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, islice
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, urlparse

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from captrial.data.datasets import find_shards, read_folder, read_shards
from captrial.data.datasets.image_folder import is_image
from captrial.data.datasets.webdataset import SHARD_SUFFIXES
from captrial.data.images import header_pixels, open_image
from captrial.data.public_network import public_client
from captrial.engines.job import Row
from captrial.errors import DatasetError, ImageError, InputError
from captrial.files import content_hash, image_source, path_inside, stamp

PART, SMALLEST = 512, 16  # images in a part: what an interruption may cost; 512 take minutes on a processor
PARTS = 64  # of an input that has images for so many
TOGETHER = 32  # rows of a Parquet file that are in memory at once
BUFFER = 1 << 20  # bytes that are read at once of each of its columns
URLS = (".txt", ".urls")
TIMEOUT = 20.0  # seconds without a byte
LONGEST = 120.0  # seconds for all of an image: a server may send a byte now and then for ever
LARGEST = 64 << 20  # bytes of a download
AT_ONCE = 16  # downloads in flight
WINDOW = 128 << 20  # bytes of all of these together
IMAGE_COLUMNS = ("image", "bytes", "path", "url")  # of a row; the first that is not null is used
Entry = tuple[str, str]  # id and where it is


@dataclass(frozen=True)
class InputPart:
    """Some rows of an input: `start` up to `stop` of a file of `size` bytes, or the entries named."""

    kind: str  # "files", "urls", "items", "tar" or "parquet"
    path: str = ""
    start: int = 0
    stop: int = 0
    size: int = 0  # of the file: another one under the same name is noticed
    entries: tuple[Entry, ...] = ()
    stamp: str = ""  # of the files' sizes and times: changed content under the same names is noticed

    def rows(self) -> Iterator[Row]:
        """Read the rows, one by one."""
        return _READERS[self.kind](self)

    @property
    def row_count(self) -> int | None:
        """The number of rows; None where only reading the file tells."""
        return None if self.kind == "tar" else self.stop - self.start if self.kind == "parquet" else len(self.entries)

    @property
    def in_file(self) -> bool:
        """Whether the ids of the rows are known only from reading the file."""
        return self.kind in ("tar", "parquet")

    @property
    def key(self) -> str:
        """A fingerprint of the description: the same for the same rows of the same file."""
        return content_hash(repr(self))


def part_size(images: int) -> int:
    """Images in a part of an input of so many: small inputs have small parts, so that an interruption loses little.

    >>> part_size(155), part_size(6000), part_size(1_000_000)
    (16, 93, 512)
    """
    return min(PART, max(SMALLEST, images // PARTS))


def find_parts(source: Path | str, size: int | None = None) -> list[InputPart]:
    """The parts of an input, in order, of `size` rows or those of `part_size`; found by name and content."""
    path = Path(source).absolute()
    if path.is_dir():
        return _folder_parts(path, size)
    if path.suffix == ".parquet" and path.is_file():
        return parquet_parts([path], size)
    if path.suffix in URLS and path.is_file():
        text = path.read_text(encoding="utf-8-sig", errors="replace")  # some editors begin a file with a mark
        lines = dict.fromkeys(line.strip() for line in text.splitlines())
        named = [line for line in lines if line and not line.startswith("#")]
        return entry_parts("urls", ((line, _place(line, path.parent)) for line in named), size)
    shards = find_shards(path)
    for shard in shards:
        if not shard.is_file():
            raise DatasetError(f"{shard}: no such input; give a folder, .tar shards, .parquet files or a .txt of URLs")
    return [_tar_part(shard) for shard in shards]


def holds_rows(source: Path | str) -> bool:
    """Whether this is tar shards, Parquet files or a list of URLs: rows to read, not files of images."""
    path = Path(source)
    if path.is_dir():
        return bool(any(path.glob("*.parquet")) or find_shards(path))
    return path.suffix in (".parquet", *URLS) or path.name.endswith(SHARD_SUFFIXES)


def parts_of_all(sources: Sequence[Path | str], size: int | None = None) -> list[InputPart]:
    """The parts of several inputs, one after the other; single images are parts together, named as they are given."""
    images, others = list[Entry](), list[Path | str]()
    for source in sources:
        path = Path(source)
        if path.is_file() and is_image(path):
            images.append((str(source), str(path.absolute())))
        else:
            others.append(source)
    return [part for other in others for part in find_parts(other, size)] + entry_parts("files", images, size)


def entry_parts(kind: str, entries: Iterable[Entry], size: int | None = None) -> list[InputPart]:
    """Parts of things that are named one by one."""
    named = [(_writable(name), place) for name, place in entries]
    step = size or part_size(len(named))
    chunks = (tuple(named[start : start + step]) for start in range(0, len(named), step))
    return [InputPart(kind, entries=chunk, stamp=_stamp(kind, chunk)) for chunk in chunks]


def _stamp(kind: str, entries: Iterable[Entry]) -> str:
    return content_hash(repr([stamp(place) for _, place in entries])) if kind == "files" else ""


def parquet_parts(paths: Sequence[Path], size: int | None = None) -> list[InputPart]:
    """Parts of Parquet files."""
    counts = [rows_in(path) for path in paths]
    step = size or part_size(sum(counts))
    return [
        InputPart("parquet", str(path), start, min(start + step, rows), path.stat().st_size, stamp=stamp(path) or "")
        for path, rows in zip(paths, counts, strict=True)
        for start in range(0, rows, step)
    ]


def rows_in(path: Path) -> int:
    """How many rows a Parquet file has."""
    with _whole(path):
        return int(pq.read_metadata(path).num_rows)


@contextmanager
def _whole(path: Path | str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise DatasetError(f"{path}: not a complete Parquet file ({reason}); fetch it again, or remove it") from None


def _folder_parts(folder: Path, size: int | None) -> list[InputPart]:
    """A folder holds tar shards, Parquet files, or images."""
    if parquet := sorted(folder.glob("*.parquet")):
        return parquet_parts(parquet, size)
    if shards := find_shards(folder):
        return [_tar_part(shard) for shard in shards]
    parts = entry_parts("files", ((sample.id, str(sample.image.path)) for sample in read_folder(folder)), size)
    if not parts:
        raise DatasetError(f"{folder}: no images, no shards and no Parquet files in it")
    return parts


def _tar_part(shard: Path) -> InputPart:
    return InputPart("tar", str(shard), size=shard.stat().st_size, stamp=stamp(shard) or "")


def _entry_reader(column: str) -> Callable[[InputPart], Iterator[Row]]:
    def read(part: InputPart) -> Iterator[Row]:
        for name, place in part.entries:
            yield {"id": name, column: place}

    return read


def _read_tar(part: InputPart) -> Iterator[Row]:
    for sample in read_shards(part.path):
        row: Row = {"id": _writable(sample.id), "image": sample.extra.get("image"), "captions": list(sample.captions)}
        yield {**row, "error": sample.extra["error"]} if "error" in sample.extra else row


def _read_parquet(part: InputPart) -> Iterator[Row]:
    """Rows of a file, some at a time however large its row groups are; a file without ids numbers its rows."""
    options = {"buffer_size": BUFFER, "pre_buffer": False}  # else whole columns are read first
    with _whole(part.path), pq.ParquetFile(part.path, **options) as file:
        groups, position = _groups(file.metadata, part)
        for batch in file.iter_batches(TOGETHER, groups):
            first, last = max(part.start - position, 0), min(part.stop - position, len(batch))
            for number, row in enumerate(batch[first : max(first, last)].to_pylist(), position + first):
                yield _placed(row, Path(part.path)) | {"id": _row_id(row, f"{Path(part.path).name}#{number}")}
            position += len(batch)
            if position >= part.stop:
                return


def _placed(row: Row, file: Path) -> Row:
    """A row whose local files start at its file's folder, and lie in it: the file may come from somebody else."""
    column = next((name for name in IMAGE_COLUMNS if row.get(name) is not None), "")
    value, inner = row.get(column), isinstance(row.get(column), dict)
    if isinstance(value, dict):
        value = None if value.get("bytes") else value.get("path")
    if not isinstance(value, str) or column == "bytes":
        return row
    try:
        place = _place(value, file.parent) if column == "url" else str(path_inside(file.parent, value))
    except InputError as error:
        return {**row, "error": f"{file.name}: {error}"}
    return {**row, column: {"path": place} if inner else place}


def _place(url: str, folder: Path) -> str:
    """A URL; that of a local file must lie in `folder`."""
    address = urlparse(url)
    return str(path_inside(folder, unquote(address.path))) if address.scheme in ("", "file") else url


def _groups(metadata: pq.FileMetaData, part: InputPart) -> tuple[list[int], int]:
    """The row groups that hold the part's rows, and the number of the first row of these groups."""
    stops = list(accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)))
    groups = [
        group
        for group, stop in enumerate(stops)
        if stop > part.start and (stops[group - 1] if group else 0) < part.stop
    ]
    return groups, stops[groups[0] - 1] if groups and groups[0] else 0


def _writable(name: str) -> str:
    """A name that can be written to a file: names of files and of tar members may hold bytes that are not UTF-8."""
    return name.encode(errors="backslashreplace").decode()


def _row_id(row: Row, otherwise: str) -> str:
    names = ("id", "image_id", "key", "url")
    return str(next((row[name] for name in names if row.get(name) is not None), otherwise))


_READERS: dict[str, Callable[[InputPart], Iterator[Row]]] = {
    "files": _entry_reader("path"),
    "urls": _entry_reader("url"),
    "items": _entry_reader("item"),
    "tar": _read_tar,
    "parquet": _read_parquet,
}


def open_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows with their `image`, opened, or an `error` that says why it cannot be opened."""
    return [_opened(row) for row in fetch_rows(rows)]


def fetch_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows with the `bytes` of their images instead of addresses, so that their sizes are known before they are opened.

    Downloads run in parallel, `AT_ONCE` rows ahead, and hold at most about `WINDOW` bytes together: what does not fit
    beside the others is downloaded after them, alone.
    """
    source = iter(rows)
    while window := list(islice(source, AT_ONCE)):
        if not any(_is_remote(row) for row in window):
            yield from window
            continue
        budget = _Budget(WINDOW)
        with (
            public_client(verify=_certificates(), timeout=TIMEOUT, follow_redirects=True) as client,
            ThreadPoolExecutor(AT_ONCE) as threads,
        ):
            fetched = list(threads.map(partial(_fetched, client=client, budget=budget), window))
            while window:
                row, done = window.pop(0), fetched.pop(0)
                yield _fetched(row, client, _Budget(sys.maxsize)) or row if done is None else done


def _is_remote(row: Row) -> bool:
    """Whether the image of a row is behind an address; another `url` is a file in the folder of its list."""
    column = next((name for name in IMAGE_COLUMNS if row.get(name) is not None), "")
    return not row.get("error") and column == "url" and "://" in str(row["url"])


class _Budget:
    """Bytes that several downloads may take together."""

    def __init__(self, size: int) -> None:
        self._left, self._lock = size, Lock()

    def take(self, size: int) -> bool:
        """Whether so many bytes were left."""
        with self._lock:
            self._left -= size
            return self._left >= 0


def _fetched(row: Row, client: httpx.Client, budget: _Budget) -> Row | None:
    """The row with the bytes of its image, or with an error; None where the budget is used up."""
    if not _is_remote(row):
        return row
    others = {name: value for name, value in row.items() if name != "url"}
    try:
        content = _download(row["url"], client, budget)
    except (InputError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return {**others, "error": str(error) or type(error).__name__}
    return None if content is None else {**others, "bytes": content}


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates: reading them takes longer than decoding five images."""
    return httpx.create_ssl_context()


def _opened(row: Row) -> Row:
    if row.get("error"):
        return {"id": row["id"], "error": row["error"]}
    try:
        image, source = _open(row)
        return {"id": row["id"], "image": image, "source": source}
    except (InputError, OSError) as error:
        return {"id": row["id"], "error": str(error) or type(error).__name__}


def _open(row: Row) -> tuple[Image.Image, list[str]]:
    """The image of a row, and what identifies its content (see `image_source`)."""
    for column in IMAGE_COLUMNS:
        value = row.get(column)
        if isinstance(value, dict):  # the image column of Hugging Face data sets: {"bytes": ..., "path": ...}
            value = value.get("bytes") or value.get("path")
        if value is not None:
            opened = open_image(value, name=str(row["id"]) if isinstance(value, bytes) else None)
            return opened, image_source(value)
    raise ImageError(f"{row['id']}: the row has no image, bytes, path or url")


def row_pixels(row: Row) -> int:
    """The pixels of the image of a row, from its header; 0 where there is none here."""
    value = next((row[name] for name in IMAGE_COLUMNS if row.get(name) is not None), None)
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    return header_pixels(value) if isinstance(value, str | bytes) and not _is_remote(row) else 0


def _download(url: str, client: httpx.Client, budget: _Budget) -> bytes | None:
    content, deadline = bytearray(), time.monotonic() + LONGEST
    with client.stream("GET", url) as answer:
        answer.raise_for_status()
        for chunk in answer.iter_bytes():
            if not budget.take(len(chunk)):
                return None
            content += chunk
            if len(content) > LARGEST:
                raise ImageError(f"{url}: more than {LARGEST >> 20} MiB")
            if time.monotonic() > deadline:
                raise ImageError(f"{url}: not all there after {LONGEST:g} seconds")
    return bytes(content)
