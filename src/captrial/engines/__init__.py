"""Run a batch job over many images: on this machine or on a Ray cluster, resumable, with the same output.

- `job`: the contract of a job, and `JobSpec`; `jobs`: captions, features, scores, selections, groundings.
- `inputs`: the rows of folders, shards, Parquet files and URL lists; `shards`: the output folder of a run.
- `make_engine` makes an engine; `engine`: `run`; `local` and `ray`: the two engines.
"""

from captrial.engines.engine import Engine, JobResult, run
from captrial.engines.inputs import InputPart, find_parts
from captrial.engines.job import Job, JobSpec
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError

__all__ = ["Engine", "InputPart", "Job", "JobResult", "JobSpec", "OutputFolder", "find_parts", "make_engine", "run"]


def make_engine(name: str = "local", workers: int = 1, ray_address: str | None = None) -> Engine:
    """Make the engine `local` or `ray`."""
    if name == "local":
        from captrial.engines.local import LocalEngine

        return LocalEngine(workers)
    if name == "ray":
        from captrial.engines.ray import RayEngine

        return RayEngine(workers, ray_address)
    raise InputError(f"--engine {name}: no such engine; choose local or ray")
