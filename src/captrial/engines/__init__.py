"""Run a batch job over many images: on this machine or on a Ray cluster, resumable, with the same output.

- `job`: the contract of a job, and `JobSpec`; `jobs`: captions, features, scores, selections, groundings.
- `inputs`: the rows of folders, shards, Parquet files and URL lists; `shards`: the output folder of a run.
- `engine`: `run` and `make_engine`; `local` and `ray`: the two engines.
"""

from captrial.engines.engine import Engine, JobResult, make_engine, run
from captrial.engines.inputs import InputPart, find_parts
from captrial.engines.job import Job, JobSpec
from captrial.engines.shards import OutputFolder

__all__ = ["Engine", "InputPart", "Job", "JobResult", "JobSpec", "OutputFolder", "find_parts", "make_engine", "run"]
