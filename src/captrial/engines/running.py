"""`run(spec, parts, out)`: a job over all parts, on the engine that is named; and the same for a plain map."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from captrial.engines.job import JobSpec
from captrial.engines.output import OutputFolder
from captrial.engines.sources import Part
from captrial.errors import InputError
from captrial.progress import progress_bar


@dataclass(frozen=True, slots=True)
class PartDone:
    """What a worker says about a part; `failure` where the part could not be done at all."""

    number: int
    rows: int = 0
    errors: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    folder: Path
    parts: int
    skipped: int  # finished before
    rows: int
    errors: int
    seconds: float


class Engine(Protocol):
    """Does parts somewhere and tells as each is done, in any order."""

    def do(self, spec: JobSpec, tasks: Sequence[tuple[int, Part, Path]]) -> Iterator[PartDone]:
        """Do every task (number, part, shard to write)."""
        ...


def make_engine(name: str = "local", workers: int = 1, ray_address: str | None = None) -> Engine:
    """`local` or `ray`."""
    if name == "local":
        from captrial.engines.local import LocalEngine

        return LocalEngine(workers)
    if name == "ray":
        from captrial.engines.on_ray import RayEngine

        return RayEngine(workers, ray_address)
    raise InputError(f"--engine {name}: there are local and ray")


def run(spec: JobSpec, parts: Sequence[Part], out: Path | str, engine: Engine) -> Outcome:
    """Do what is not done yet; a part that fails as a whole is an error after all others are finished."""
    folder, started = OutputFolder(out), time.monotonic()
    todo = folder.prepare(spec, parts)
    tasks = [(number, parts[number], folder.shard(number)) for number in todo]
    rows = errors = 0
    failures: list[PartDone] = []
    with progress_bar() as bar:
        task = bar.add_task(spec.job.__name__, total=len(parts), completed=len(parts) - len(todo))
        for done in engine.do(spec, tasks):
            rows, errors = rows + done.rows, errors + done.errors
            if done.failure:
                failures.append(done)
            bar.advance(task)
    if failures:
        first = failures[0]
        raise InputError(
            f"{len(failures)} of {len(parts)} parts could not be done, such as part {first.number}: {first.failure}; "
            "the others are finished: run the same command again to retry"
        )
    return Outcome(Path(out), len(parts), len(parts) - len(todo), rows, errors, time.monotonic() - started)
