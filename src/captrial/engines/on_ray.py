"""The Ray engine: the same parts through Ray Data's actor pools, on this machine or a cluster.

The data set that Ray moves is the list of parts; workers read their own input and write their own shard, so no picture
passes through the driver or the object store, and memory stays flat however large the input is. A worker that dies is
started again and its part repeated; shards are renamed into place, so nothing is doubled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from captrial.engines.job import JobSpec
from captrial.engines.local import Task, attempt
from captrial.engines.running import PartDone
from captrial.engines.sources import Part
from captrial.errors import MissingExtraError


class RayEngine:
    """Actors on a Ray cluster; without an address one is started on this machine for the time of the run."""

    def __init__(self, workers: int = 2, address: str | None = None) -> None:
        try:
            import ray  # noqa: F401
        except ModuleNotFoundError:
            raise MissingExtraError("--engine ray", "ray") from None
        self.workers, self.address = workers, address

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Iterator[PartDone]:
        """Do every task."""
        if not tasks:
            return
        import ray

        started = _connect(self.address, self.workers)
        try:
            items = [{"number": number, "part": part, "shard": str(shard)} for number, part, shard in tasks]
            data = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
                _Worker,
                fn_constructor_args=(spec,),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(items)), max_tasks_in_flight_per_actor=2),
                num_cpus=1,
                max_restarts=-1,
                max_task_retries=-1,
            )
            for row in data.iter_rows():
                yield PartDone(row["number"], row["rows"], row["errors"], row["failure"] or None)
        finally:
            if started:
                ray.shutdown()


class _Worker:
    """One actor: loads the job once, does a part a call."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec, self.job = spec, spec.make()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        task: tuple[int, Part, Path] = (int(batch["number"][0]), batch["part"][0], Path(batch["shard"][0]))
        done = attempt(self.job, self.spec, task)
        return {
            "number": [done.number],
            "rows": [done.rows],
            "errors": [done.errors],
            "failure": [done.failure or ""],
        }


def _connect(address: str | None, workers: int) -> bool:
    """Join a cluster, or start one here; tells whether it is ours to stop."""
    import ray

    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(num_cpus=workers, **settings)
    else:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return True
