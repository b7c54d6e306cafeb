"""Output shards: one Parquet file a part, written to a temporary file and renamed, so that every file is complete.

A run's folder holds `run.json` (job, input, part size) and `part-000000.parquet`, ...; a part that has its file is
finished and never done again.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.engines.inputs import InputPart
from captrial.engines.job import Job, JobSpec, Row, explain, output_schema, prepare_guarded, run_guarded
from captrial.errors import InputError, MismatchError
from captrial.files import atomic_path, atomic_write, content_hash

RUN, ERRORS, PART = "run.json", "errors", "part"


@dataclass(frozen=True, slots=True)
class Task:
    """A part and the file that its output goes to."""

    number: int
    part: InputPart
    shard: Path


class OutputFolder:
    """The folder of a run; refuses to mix two jobs or two inputs."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()  # workers may run in another directory

    def prepare(self, spec: JobSpec, parts: Sequence[InputPart]) -> list[Task]:
        """What is still to be done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        arguments = orjson.dumps(dict(spec.arguments), default=str, option=orjson.OPT_SORT_KEYS)
        description = {
            "job": spec.job.__name__,
            "arguments": content_hash(arguments) if len(arguments) > 4096 else orjson.loads(arguments),
            "parts": len(parts),
            "input": content_hash(repr(list(parts))),
            **({"files": dict(spec.stamps)} if spec.stamps else {}),
        }
        path = self.folder / RUN
        if path.exists() and (before := orjson.loads(path.read_bytes())) != description:
            raise MismatchError(
                f"{self.folder} holds the output of another job or input (another {_difference(before, description)}); "
                "choose another folder"
            )
        atomic_write(path, orjson.dumps(description, option=orjson.OPT_INDENT_2))
        for tries in self.folder.glob(".part-*.tries"):  # of a driver that was killed
            tries.unlink(missing_ok=True)
        tasks = (Task(number, part, self.shard(number)) for number, part in enumerate(parts))
        return [task for task in tasks if not task.shard.exists()]

    def shard(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"part-{number:06}.parquet"

    def shards(self) -> list[Path]:
        """The finished files, in order."""
        return sorted(self.folder.glob("part-*.parquet"), key=lambda path: int(path.stem.removeprefix("part-")))

    def is_whole(self) -> bool:
        """Whether a run is here and every part of it is finished."""
        path = self.folder / RUN
        return path.exists() and len(self.shards()) == int(orjson.loads(path.read_bytes())["parts"])

    def clear(self) -> None:
        """Remove everything, at once: what is left of a removal that was killed is not taken for finished parts."""
        old = self.folder.with_name(f".{self.folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self.folder.exists():
            self.folder.rename(old)
            shutil.rmtree(old)

    def tables(self) -> Iterator[pa.Table]:
        """The finished files, read one by one."""
        return (pq.read_table(path, partitioning=None) for path in self.shards())

    def rows(self) -> Iterator[Row]:
        """All rows of the finished parts, in order."""
        for path in self.shards():
            yield from rows_of(path)

    @contextmanager
    def all_needed(self) -> Iterator[None]:
        """Where every row is needed: on an error, remove shards with failed rows, so that the next run repeats them."""
        try:
            yield
        except InputError:
            for shard in self.shards():
                if counts(shard)[1]:
                    shard.unlink()
            raise

    def sweep(self) -> None:
        """Remove what killed workers left half written; only when no worker is running."""
        for path in self.folder.glob(".part-*"):
            path.unlink(missing_ok=True)


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What two descriptions of runs do not share; of files their names."""
    files, known = now.get("files", {}), before.get("files", {})
    keys = [key for key in {**before, **now} if key != "files" and before.get(key) != now.get(key)]
    return ", ".join([*keys, *(name for name in {**known, **files} if known.get(name) != files.get(name))])


def do_part(job: Job, spec: JobSpec, task: Task) -> tuple[int, int]:
    """Read a part, do it batch by batch, write its shard; returns its rows and how many of them have an error.

    The next batch is made ready in a thread meanwhile: no more than two are ever in memory.
    """
    if task.shard.exists():  # done before its worker could tell
        return counts(task.shard)
    schema, rows, failed = output_schema(spec.job), 0, 0
    with (
        closing(_ahead(job, _batches(task.part.rows(), spec.batch))) as batches,
        atomic_path(task.shard) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for batch in batches:
            done = to_table(run_guarded(job, batch), schema)
            writer.write_table(done)
            rows, failed = rows + len(done), failed + len(done) - done["error"].null_count
        writer.add_key_value_metadata({ERRORS: str(failed), PART: task.part.key})
    return rows, failed


def to_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Answers as they are written; one that does not fit the columns is its row's error, not the end of the part."""
    try:
        return pa.Table.from_pylist(rows, schema)
    except (pa.ArrowException, UnicodeError, TypeError, ValueError) as error:
        if len(rows) == 1:
            why = f"what came out cannot be written: {explain(error)}"
            return pa.Table.from_pylist([{"id": rows[0]["id"], "error": why}], schema)
        return pa.concat_tables(to_table([row], schema) for row in rows)


def rows_of(shard: Path) -> Iterator[Row]:
    """The rows of a finished shard, read as they were written, a batch at a time: one of a large tar may be large."""
    with pq.ParquetFile(shard, pre_buffer=False) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()


def key_of(shard: Path) -> str:
    """The key of the part (see `InputPart.key`) that a finished shard is the output of."""
    return str(pq.read_metadata(shard).metadata[PART.encode()].decode())


def counts(shard: Path) -> tuple[int, int]:
    """Rows of a finished shard and how many of them have an error, from its footer."""
    metadata = pq.read_metadata(shard)
    return metadata.num_rows, int((metadata.metadata or {}).get(ERRORS.encode(), 0))


def _ahead(job: Job, batches: Iterator[list[Row]]) -> Generator[list[Row], None, None]:
    """Batches made ready, each while the one before is worked on."""

    def ready() -> list[Row]:
        return prepare_guarded(job, next(batches, []))

    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(ready)
        while batch := coming.result():
            coming = thread.submit(ready)
            yield batch


def _batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    numbered = iter(rows)
    while batch := list(islice(numbered, size)):
        yield batch
