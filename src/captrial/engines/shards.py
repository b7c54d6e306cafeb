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
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.data.images import pixel_batches
from captrial.engines.inputs import InputPart, fetch_rows, row_pixels
from captrial.engines.job import Job, JobSpec, Row, explain, output_schema, prepare_guarded, run_guarded
from captrial.errors import DamagedError, InputError, MismatchError, damage_named
from captrial.files import atomic_path, content_hash, without_passwords
from captrial.folders import (
    FolderVerifier,
    VerifiedFolder,
    check_files,
    damaged_files,
    record_files,
    refuse_foreign_folder,
    write_checked,
)
from captrial.progress import track

REMAKE = "the same command after removing it"
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
        """What is still to be done; a folder that holds something else is refused."""
        refuse_foreign_folder(self.folder, ours=lambda _: self._description() is not None)
        arguments = orjson.dumps(dict(spec.arguments), default=str, option=orjson.OPT_SORT_KEYS)
        description = {
            "job": spec.job.__name__,
            "arguments": content_hash(arguments)
            if len(arguments) > 4096
            else _without_passwords(orjson.loads(arguments)),
            "parts": len(parts),
            "input": content_hash(repr(list(parts))),
            **({"files": dict(spec.stamps)} if spec.stamps else {}),
        }
        before = self._description()
        if before not in (None, description):
            raise MismatchError(
                f"{self.folder} holds the output of another job or input (another {_difference(before, description)}); "
                "choose another folder, or remove this one"
            )
        if before is None:
            with write_checked(self.folder) as staging:
                (staging / RUN).write_bytes(orjson.dumps(description, option=orjson.OPT_INDENT_2))
        record_files(self.folder, [])  # parts that were removed to be done again lose their checksums
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
        before = self._description()
        return before is not None and len(self.shards()) == before["parts"]

    def _description(self) -> dict[str, Any] | None:
        """The content of `run.json`; None where there is none."""
        path = self.folder / RUN
        if not path.exists():
            return None
        check_files(self.folder, REMAKE, [RUN])
        try:
            found = orjson.loads(path.read_bytes())
            if not isinstance(found["job"], str) or not isinstance(found["parts"], int):
                raise ValueError("it names no job and no number of parts")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedError(path, f"is not the description of a run ({error})", REMAKE) from None
        return dict(found)

    def clear(self) -> None:
        """Remove everything, at once: what is left of a removal that was killed is not taken for finished parts."""
        old = self.folder.with_name(f".{self.folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self.folder.exists():
            self.folder.rename(old)
            shutil.rmtree(old)

    def tables(self) -> Iterator[pa.Table]:
        """The finished files, read one by one."""
        self.check()
        return map(read_shard, self.shards())

    def rows(self) -> Iterator[Row]:
        """All rows of the finished parts, in order."""
        self.check()
        for path in self.shards():
            yield from rows_of(path)

    def check(self) -> None:
        """Raise a `DamagedError` where a finished file does not match its checksum."""
        check_files(self.folder, REMAKE, [path.name for path in self.shards()])

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
        """Remove what killed workers left half written, and record checksums; only when no worker is running."""
        for path in self.folder.glob(".part-*"):
            path.unlink(missing_ok=True)
        record_files(self.folder, [path.name for path in self.shards()])


def _without_passwords(arguments: Any) -> Any:
    """Arguments as they are stored: a captioner's address may hold a password."""
    return {key: without_passwords(value) if isinstance(value, str) else value for key, value in arguments.items()}


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
        closing(_ahead(job, _batches(fetch_rows(task.part.rows()), spec.batch))) as batches,
        atomic_path(task.shard) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
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
    with damage_named(shard, REMAKE), pq.ParquetFile(shard, pre_buffer=False, page_checksum_verification=True) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()


def read_shard(shard: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A finished shard, or some of its columns."""
    with damage_named(shard, REMAKE):
        return pq.read_table(shard, columns=columns, partitioning=None, page_checksum_verification=True)


def key_of(shard: Path) -> str:
    """The key of the part (see `InputPart.key`) that a finished shard is the output of."""
    with damage_named(shard, REMAKE):
        return str(pq.read_metadata(shard).metadata[PART.encode()].decode())


def counts(shard: Path) -> tuple[int, int]:
    """Rows of a finished shard and how many of them have an error, from its footer."""
    with damage_named(shard, REMAKE):
        metadata = pq.read_metadata(shard)
        return metadata.num_rows, int((metadata.metadata or {}).get(ERRORS.encode(), 0))


def verify_output(folder: Path | str) -> VerifiedFolder:
    """Read every shard of a run against its checksums; problems are listed, not raised."""
    output, problems = OutputFolder(folder), damaged_files(folder, REMAKE)
    try:
        output._description()
    except DamagedError as error:
        problems.append(str(error))
    shards = output.shards()
    for shard in track(shards, "verifying parts"):
        try:
            read_shard(shard)
        except DamagedError as error:
            problems.append(str(error))
    return VerifiedFolder(OUTPUT.name, 1 + len(shards), tuple(dict.fromkeys(problems)))


def _is_output(folder: Path) -> bool:
    path = folder / RUN
    return path.is_file() and (b'"parts"' in path.read_bytes()[:100_000] or any(folder.glob("part-*.parquet")))


OUTPUT = FolderVerifier("output of a job", _is_output, verify_output)


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
    """Batches of at most `size` rows, and with as many pixels as may be in memory at once."""
    return pixel_batches(rows, row_pixels, largest=size)
