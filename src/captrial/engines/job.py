"""The Job contract: one class that runs unchanged here or on a cluster.

A job is a picklable recipe (`JobSpec`); a worker makes the job of it once (that is when a model is loaded) and calls it
batch by batch. Rows go in as dicts with an `id`; one dict a row comes back, in order. What fails is a row's `error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

Row = dict[str, Any]


class Job(Protocol):
    """Something done to every row; its `__init__` loads what it needs."""

    schema: pa.Schema  # of what it adds to a row, without `id` and `error`

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """One row out for each row in, in order; an `error` in place of results where one could not be done."""
        ...


@dataclass(frozen=True)
class JobSpec:
    """A job that is not made yet: pickled to the workers instead of a model."""

    job: type[Job]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 32  # rows a call

    def make(self) -> Job:
        """Load it."""
        return self.job(**self.arguments)


def output_schema(job: type[Job]) -> pa.Schema:
    """Columns of an output shard: `id`, what the job adds, `error`."""
    return pa.schema([pa.field("id", pa.string()), *job.schema, pa.field("error", pa.string())])


def run_guarded(job: Job, rows: Sequence[Row]) -> list[Row]:
    """Call the job; where a batch fails its rows are tried one by one, so that only the bad ones carry an error."""
    fine = [row for row in rows if not row.get("error")]
    done = iter(_call(job, fine))
    return [{"id": row["id"], **(next(done) if not row.get("error") else {"error": row["error"]})} for row in rows]


def _call(job: Job, rows: Sequence[Row]) -> list[Row]:
    if not rows:
        return []
    try:
        answers = job(rows)
        if len(answers) != len(rows):
            raise ValueError(f"{type(job).__name__} answered {len(answers)} rows of {len(rows)}")
        return answers
    except Exception as error:
        if len(rows) == 1:
            return [{"error": f"{type(error).__name__}: {error}"}]
        return [answer for row in rows for answer in _call(job, [row])]
