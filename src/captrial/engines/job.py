"""The Job contract: one class that runs unchanged here or on a cluster.

A job is a picklable recipe (`JobSpec`); a worker makes the job of it once (that is when a model is loaded) and calls it
batch by batch. Rows go in as dicts with an `id`; one dict a row comes back, in order. What fails is a row's `error`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from captrial.errors import CaptrialError, InputError

Row = dict[str, Any]


class Job(ABC):
    """Something done to every row; its `__init__` loads what it needs."""

    title: ClassVar[str] = "working"  # what its progress bar says
    schema: ClassVar[pa.Schema]  # of what it adds to a row, without `id` and `error`

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Make rows ready (download, decode); called in a thread, a batch ahead. A bad row gets an `error`."""
        return rows

    @abstractmethod
    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """One row out for each row in, in order; an `error` in place of results where one could not be done."""


@dataclass(frozen=True)
class JobSpec:
    """A job that is not made yet: pickled to the workers instead of a model."""

    job: type[Job]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 32  # rows a call
    stamps: Mapping[str, str] = field(default_factory=dict)  # of files it reads: other files would make other output
    pace: Mapping[str, Any] = field(default_factory=dict)  # arguments that change no output, only how soon it is there

    def make(self) -> Job:
        """Load it."""
        return self.job(**self.arguments, **self.pace)


def output_schema(job: type[Job]) -> pa.Schema:
    """Columns of an output shard: `id`, what the job adds, `error`."""
    return pa.schema([pa.field("id", pa.string()), *job.schema, pa.field("error", pa.string())])


def prepare_guarded(job: Job, rows: Sequence[Row]) -> list[Row]:
    """`job.prepare`, errors in the rows that caused them."""
    return _halving(job.prepare, rows)


def run_guarded(job: Job, rows: Sequence[Row]) -> list[Row]:
    """Call the job on the rows without an error yet; only the rows that make it fail carry one afterwards."""
    done = iter(_halving(job, [row for row in rows if not row.get("error")]))
    return [{"id": row["id"], **({"error": row["error"]} if row.get("error") else next(done))} for row in rows]


def _halving(call: Callable[[Sequence[Row]], Sequence[Row]], rows: Sequence[Row]) -> list[Row]:
    """The answers; where a batch fails each half is tried by itself, down to the rows that cannot be done.

    Errors that no row causes (an endpoint that is gone, a package that is not installed) end the part instead.
    """
    if not rows:
        return []
    try:
        answers = call(rows)
        if len(answers) != len(rows):
            raise ValueError(f"{len(answers)} answers to {len(rows)} rows")
        return list(answers)
    except Exception as error:
        if isinstance(error, CaptrialError) and not isinstance(error, InputError):
            raise
        if len(rows) == 1:
            return [{"id": rows[0]["id"], "error": explain(error)}]
        middle = len(rows) // 2
        return _halving(call, rows[:middle]) + _halving(call, rows[middle:])


def explain(error: Exception) -> str:
    """An exception in one sentence; our own need no name before them."""
    return str(error) if isinstance(error, CaptrialError) else f"{type(error).__name__}: {error}"


def digest(path: Path | str) -> str:
    """A hash of the content of a file that a job reads, for `JobSpec.stamps`."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
