"""The Ray engine: the same parts through Ray Data's actor pools, on this machine or a cluster.

The data set that Ray moves is the list of parts; workers read their own input and write their own shard, so no image
passes through the driver or the object store, and memory stays flat however large the input is. A worker that dies is
started again and its part repeated; shards are renamed into place, so nothing is doubled.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from captrial.engines.engine import PartDone, Parts, Worker, share_cores, threads_each
from captrial.engines.job import JobSpec
from captrial.engines.shards import Task
from captrial.errors import CaptrialError, InputError, MissingExtraError

STORE = 256 << 20  # bytes of the object store of a cluster of our own: only task descriptions go through it
MOST_BLOCKS = 10_000  # Ray's scheduler looks at every block


class RayEngine:
    """Actors on a Ray cluster; without an address one is started on this machine for the time of the run."""

    def __init__(self, workers: int = 2, address: str | None = None) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as Ray will; else it warns
        try:
            import ray.data  # noqa: F401
        except ModuleNotFoundError:
            raise MissingExtraError("--engine ray", "ray") from None
        self.workers, self.address = max(1, workers), address

    def do(self, spec: JobSpec, tasks: Sequence[Task]) -> Parts:
        """Do every task."""
        if not tasks:
            return
        import ray

        ours = _connect(self.address, self.workers)
        try:
            rows = [{"task": pickle.dumps(task)} for task in tasks]
            data = ray.data.from_items(rows, override_num_blocks=min(len(rows), MOST_BLOCKS)).map_batches(
                _RayWorker,
                fn_constructor_args=(spec, None if self.address else threads_each(self.workers), str(Path.cwd())),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(rows)), max_tasks_in_flight_per_actor=2),
                num_cpus=1,  # actors that die are started again and their tasks repeated: Ray Data's default
            )
            for row in data.iter_rows():
                yield PartDone(*pickle.loads(row["done"]))
        finally:
            if ours:
                ray.shutdown()


class _RayWorker:
    """One actor: a `Worker` behind Ray's batches of columns. Without a number of threads it has Ray's one."""

    def __init__(self, spec: JobSpec, threads: int | None, directory: str) -> None:
        with suppress(OSError):  # relative paths of models and vectors are those of the driver, where a node has them
            os.chdir(directory)
        if threads is not None:
            share_cores(threads)
        self.worker = Worker(spec)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"done": [pickle.dumps(astuple(self.worker.do(pickle.loads(task)))) for task in batch["task"]]}


def _connect(address: str | None, workers: int) -> bool:
    """Join a cluster, or start one here; tells whether it is ours to leave."""
    import ray

    if ours := not ray.is_initialized():
        try:
            if address is None:
                os.environ.setdefault("RAY_worker_niceness", "0")  # else workers give way to every other process here
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports without asking
                ray.init(
                    num_cpus=workers,
                    object_store_memory=STORE,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            else:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            if address is None:
                raise CaptrialError(f"no Ray cluster could be started here: {error}") from None
            raise InputError(f"--ray-address {address}: no Ray cluster answers there ({error})") from None
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ours
