"""What an image costs at every stage, and what an engine adds: the measurements behind docs/scale.md.

    python -m benchmarks.speed.scale stages      images a second and bytes an image of every stage, one worker
    python -m benchmarks.speed.scale engines     the same features on two local and two Ray workers, and where time goes
    python -m benchmarks.speed.scale select      a million images x 9 models: threads, local workers and Ray

Without a name all of them run. Images are Flickr8k's (`CAPTRIAL_DATA`) or, without these, the toy world's.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.measuring import Row as TableRow
from benchmarks.measuring import compare, peak_memory
from benchmarks.processes import command, processor_seconds
from benchmarks.speed.selection import recombine, warm_up
from benchmarks.speed.stage_costs import BACKBONE, Numbers, images, run_on_files, stages
from captrial.engines import make_engine
from captrial.engines.job import Row
from captrial.engines.jobs.extract_features import FeatureJob
from captrial.engines.shards import OutputFolder


class TimedFeatures(FeatureJob):
    """Features, with a line in a log for every moment that counts."""

    def __init__(self, backbone: str, log: str) -> None:
        self.log = log
        self._write("load")
        super().__init__(backbone)
        self._write("loaded")

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Look at the images."""
        self._write("begin")
        done = super().__call__(rows)
        self._write("end")
        return done

    def _write(self, what: str) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()} {what} {time.time()} {time.process_time()}\n")


def engines(count: int = 512, workers: int = 2) -> Iterator[Numbers]:
    """The same features by local workers and by Ray's, in one run; outputs are compared, seconds taken apart."""
    rows, tables = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = images(folder, count)
        for name in ("local", "ray"):
            log, out = folder / f"{name}.log", folder / name
            begun, arguments = time.time(), {"backbone": BACKBONE, "log": str(log)}
            with processor_seconds() as spent:
                seconds = run_on_files(TimedFeatures, arguments, files, out, 32, make_engine(name, workers)).seconds
            tables.append([(row["id"], row["elements"], row["error"]) for row in OutputFolder(out).rows()])
            rows.append(
                {
                    "engine": name,
                    "workers": workers,
                    "images": count,
                    "seconds": seconds,
                    **_apart(log, begun, seconds, count),
                    "processor seconds": spent,
                }
            )
            yield rows[-1]
    yield {
        "same outputs": tables[0] == tables[1],
        "ray / local, steady": rows[1]["steady images a second"] / rows[0]["steady images a second"],
        "ray / local, whole": rows[0]["seconds"] / rows[1]["seconds"],
    }


def _apart(log: Path, begun: float, seconds: float, count: int) -> Numbers:
    """Where a run's seconds went, from the moments that its workers wrote down."""
    lines = [line.split() for line in log.read_text().splitlines()]
    moments = [(pid, what, float(at), float(used)) for pid, what, at, used in lines]
    at = {what: [when for _, kind, when, _ in moments if kind == what] for what in ("load", "loaded", "begin", "end")}
    working = max(at["end"]) - min(at["begin"])
    workers = {pid for pid, *_ in moments}
    inside = sum(at["end"]) - sum(at["begin"])  # of calls
    used = sum(
        max(u for p, *_, u in moments if p == pid) - min(u for p, w, _, u in moments if p == pid and w == "loaded")
        for pid in workers
    )
    return {
        "until workers are up": min(at["load"]) - begun,
        "loading the job": max(at["loaded"]) - min(at["load"]),
        "working": working,
        "after the last image": begun + seconds - max(at["end"]),
        "steady images a second": count / working,
        "share of the time that workers look at images": inside / (len(workers) * working),
        "processor seconds an image": used / count,
    }


def select(count: int = 1_000_000, models: int = 9, workers: int = 2) -> list[Numbers]:
    """Selection by threads, by local workers and by Ray; peak memory is that of driver and workers together."""
    rows, results = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made, _ = recombine(folder, count, models)
        named = [option for file in made for option in ("--captions", f"{file.stem}={file}")]
        warm_up(folder, named)
        command(["compete", "new", str(folder / "competition"), *named])
        for name in (None, "local", "ray"):
            line = ["compete", "select", str(folder / "competition"), "--k", "70", "--workers", str(workers), "--json"]
            line += ["--again", *(["--engine", name] if name else [])]
            for file in (folder / "competition" / "selection").glob("*-*.json"):
                file.unlink()
            seconds, peak, answer = command(line)
            results.append(json.loads(answer)["pairs"])
            rows.append(
                {"engine": name or "threads", "images": count, "models": models, "seconds": seconds, "peak GB": peak}
            )
    rows.append({"same selection": all(result == results[0] for result in results)})
    return rows


def run(count: int = 256, captions: int = 100_000) -> list[TableRow]:
    """Ray beside local workers, and both beside threads; their results must be the same."""
    *(local, ray), answer = engines(count)
    *(threads, by_local, by_ray), selected = select(captions)
    if not (answer["same outputs"] and selected["same selection"]):
        raise RuntimeError(f"engines disagree: {answer}, {selected}")
    steady, what = "steady images a second", f"select of {captions} images, 9 models, 2 workers"
    return [
        compare(f"features of {count} images by 2 Ray workers", "2 local ones", ray[steady], local[steady], "/s"),
        compare(f"{what}, by local processes", "by threads", by_local["seconds"], threads["seconds"]),
        compare(f"{what}, by Ray, its start included", "by threads", by_ray["seconds"], threads["seconds"]),
        compare(f"{what}, by Ray, memory of all", "by threads", by_ray["peak GB"], threads["peak GB"], "GB"),
    ]


STAGES: dict[str, Callable[[], Iterable[Numbers]]] = {
    "stages": stages,
    "engines": engines,
    "select": select,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="*", help="all by default")
    parser.add_argument("--images", type=int, help="how many, instead of a stage's own number")
    parser.add_argument("--model", help="the captioner of `stages`, instead of an untrained one")
    arguments = parser.parse_args()
    for name in arguments.stage or STAGES:
        options: Numbers = {"count": arguments.images} if arguments.images else {}
        if name == "stages":
            options["model"] = arguments.model
        for row in STAGES[name](**options):
            print(json.dumps({"benchmark": name, **row}), flush=True)
    print(json.dumps({"peak GB of this process": peak_memory() / 1024}))


if __name__ == "__main__":
    main()
