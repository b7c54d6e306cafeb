"""Output shards: one Parquet file a part, written aside and renamed, so that what is there is whole.

A run's folder holds `run.json` (job, input, part size) and `part-00000.parquet`, ...; a part that has its file is
finished and never done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.engines.job import Job, JobSpec, Row, output_schema, run_guarded
from captrial.engines.sources import Part
from captrial.errors import MismatchError
from captrial.files import atomic_path, atomic_write, content_hash

RUN = "run.json"


class OutputFolder:
    """The folder of a run; refuses to mix two jobs or two inputs."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def prepare(self, spec: JobSpec, parts: Sequence[Part]) -> list[int]:
        """Numbers of the parts that are still to be done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        description = {
            "job": spec.job.__name__,
            "arguments": {key: _plain(value) for key, value in spec.arguments.items()},
            "parts": len(parts),
            "input": content_hash(repr(list(parts))),
        }
        path = self.folder / RUN
        if path.exists() and orjson.loads(path.read_bytes()) != orjson.loads(orjson.dumps(description)):
            raise MismatchError(f"{self.folder} holds the output of another job or input; choose another --out")
        atomic_write(path, orjson.dumps(description, option=orjson.OPT_INDENT_2))
        return [number for number in range(len(parts)) if not self.shard(number).exists()]

    def shard(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"part-{number:05}.parquet"

    def shards(self) -> list[Path]:
        """The finished files, in order."""
        return sorted(self.folder.glob("part-*.parquet"))

    def rows(self) -> Iterator[Row]:
        """All rows of the finished parts, in order, a file at a time."""
        for path in self.shards():
            yield from pq.read_table(path).to_pylist()


def do_part(job: Job, spec: JobSpec, part: Part, shard: Path) -> tuple[int, int]:
    """Read a part, do it batch by batch, write its shard; returns its rows and how many of them have an error."""
    schema = output_schema(spec.job)
    total = failed = 0
    with atomic_path(shard) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for rows in _batches(part.rows(), spec.batch):
            done = run_guarded(job, rows)
            writer.write_table(pa.Table.from_pylist(done, schema))
            total += len(done)
            failed += sum(bool(row.get("error")) for row in done)
    return total, failed


def _batches(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
