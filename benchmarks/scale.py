"""What a picture costs at every stage, and what an engine adds: the measurements behind docs/scale.md.

    python -m benchmarks.scale stages      pictures a second and bytes a picture of every stage, one worker
    python -m benchmarks.scale engines     the same features on two local and two Ray workers, and where time goes
    python -m benchmarks.scale select      a million pictures x 9 models: threads, local workers and Ray select the same

Without a name all of them run. Pictures are Flickr8k's (`CAPTRIAL_DATA`) or, without these, the toy world's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks.measuring import Row as TableRow
from benchmarks.measuring import compare, empty_cache, environment, peak_memory
from benchmarks.selection import recombine, warm_up
from captrial.engines.captioning import CaptionJob
from captrial.engines.features import FeatureJob, gather
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.output import OutputFolder
from captrial.engines.running import Outcome, Parts, make_engine
from captrial.engines.running import run as run_job
from captrial.engines.sources import entry_parts
from experiments.shared import FLICKR8K, KARPATHY_TEST, ROOT, published_captions

BACKBONE = "efficientnet-lite2"
EXPLAINED = 16  # pictures whose captions are explained: these take longest
Numbers = dict[str, Any]


def pictures(folder: Path, count: int) -> list[Path]:
    """Real pictures, used again and again until there are enough (links of other names)."""
    found = sorted((FLICKR8K / "images").glob("*.jpg"))
    if not found:
        from captrial.data.toyworld import write_toyworld

        write_toyworld(folder / "world", 100, 0)
        found = sorted((folder / "world").rglob("*.png"))
    links = folder / "pictures"
    links.mkdir()
    for number, path in zip(range(count), itertools.cycle(found), strict=False):
        (links / f"{number:06}{path.suffix}").symlink_to(path)
    return sorted(links.iterdir())


class Open(Job):
    """Only opens the pictures."""

    schema: ClassVar[pa.Schema] = pa.schema([("width", pa.int32())])

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Open them."""
        from captrial.engines.pictures import open_rows

        return open_rows(rows)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """How wide they are."""
        return [{"width": row["picture"].width} for row in rows]


class TimedFeatures(FeatureJob):
    """Features, with a line in a log for every moment that counts."""

    def __init__(self, backbone: str, log: str) -> None:
        self.log = log
        self._write("load")
        super().__init__(backbone)
        self._write("loaded")

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Look at the pictures."""
        self._write("begin")
        done = super().__call__(rows)
        self._write("end")
        return done

    def _write(self, what: str) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()} {what} {time.time()} {time.process_time()}\n")


def _run(job: type[Job], arguments: Numbers, files: Sequence[Path], out: Path, batch: int, engine: Any) -> Outcome:
    parts = entry_parts("files", ((path.name, str(path)) for path in files), 64)
    return run_job(JobSpec(job, arguments, batch), parts, out, engine)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def untrained(folder: Path) -> Path:
    """A Transformer captioner of the usual size whose weights are random: it says 20 words, the longest it may."""
    import torch

    from captrial.captioners.checkpoint import Checkpoint
    from captrial.captioners.registry import create
    from captrial.language.vocabulary import Vocabulary
    from captrial.vision.loading import load_backbone

    vision = load_backbone(BACKBONE).describe()
    words = Vocabulary.build([[f"word{number}"] for number in range(2500)], 1)
    torch.manual_seed(0)
    captioner = create("transformer-small", words=len(words), features=int(vision["width"]))
    Checkpoint(captioner.eval(), words, vision).save_pretrained(folder / "untrained")
    return folder / "untrained"


def stages(count: int = 160, model: str | None = None) -> Iterator[Numbers]:
    """One worker, one thread: what a core does."""
    import torch

    from captrial.vision.loading import load_backbone

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = pictures(folder, count)
        size = sum(path.stat().st_size for path in files) / count
        yield {"stage": "pictures as files", "bytes a picture": size}
        steps: list[tuple[str, type[Job], Numbers, int]] = [
            ("open and decode", Open, {}, 32),
            (f"features ({BACKBONE}, 224)", FeatureJob, {"backbone": BACKBONE}, 32),
            ("caption (features and beam 5)", CaptionJob, {"model": model or str(untrained(folder))}, 16),
        ]
        for number, (name, job, arguments, batch) in enumerate(steps):
            spec, out = JobSpec(job, arguments, batch), folder / f"out{number}"
            engine = _Loaded(spec)
            before = time.process_time()
            seconds = _run(job, arguments, files, out, batch, engine).seconds
            used = time.process_time() - before
            yield _row(name, count, seconds, used, _bytes(out))
        store = folder / "store"
        vision = load_backbone(BACKBONE).describe()
        seconds, used = _timed(lambda: gather(OutputFolder(folder / "out1"), store, vision))
        yield _row("gather features", count, seconds, used, _bytes(store))
        for method in ("attention", "integrated_gradients"):
            yield _explaining(method, files[:EXPLAINED], store, folder / method)
    yield from _text_stages()


def _explaining(method: str, files: Sequence[Path], store: Path, out: Path) -> Numbers:
    """The shipped captioner says something (beam 5) and every word is attributed; features are there already."""
    from captrial.captioners.shipped import DEFAULT, shipped
    from captrial.engines.grounding import GroundJob, write_sample
    from captrial.records import Box, Picture, Region, Sample

    halves = Region(Box(0.0, 0.0, 128.0, 256.0), "dog"), Region(Box(128.0, 0.0, 256.0, 256.0), "man")
    arguments = {
        "checkpoint": str(shipped()[DEFAULT]),
        "features": str(store),
        "method": method,
        "beam": 5,
        "labels": ("dog", "man"),
        "similarity": ("table+vectors", None),
        "threshold": None,
    }
    spec = JobSpec(GroundJob, arguments, 16)
    parts = entry_parts(
        "items",
        ((path.name, write_sample(Sample(Picture(path.name, None, 256, 256), regions=halves))) for path in files),
        64,
    )
    engine = _Loaded(spec)
    engine.worker._job(list(parts[0].rows())[:1])  # type: ignore[misc]  # loads the parser of nouns
    seconds, used = _timed(lambda: run_job(spec, parts, out, engine))
    return _row(f"explain: {method}", len(files), seconds, used, _bytes(out))


class _Loaded:
    """The local engine with the job loaded before the clock starts."""

    def __init__(self, spec: JobSpec) -> None:
        from captrial.engines.running import Worker

        self.worker = Worker(spec)
        self.worker._job = spec.make()

    def do(self, spec: JobSpec, tasks: Sequence[Any]) -> Parts:
        yield from map(self.worker.do, tasks)


def _text_stages() -> Iterator[Numbers]:
    """Metrics of real captions, one system against five references."""
    from captrial.engines.local import LocalEngine
    from captrial.engines.scoring import score_all

    if not KARPATHY_TEST.is_dir():
        return
    references = json.loads((KARPATHY_TEST / "references.json").read_text())
    system = next(iter(published_captions().values()))
    said = {str(row["image_id"]): row["caption"] for row in json.loads(system.read_text())}
    known = (
        {str(name): texts for name, texts in references.items() if str(name) in said}
        if isinstance(references, dict)
        else {}
    )
    names = list(known)[:1000]
    systems, truth = {"one": {name: said[name] for name in names}}, {name: known[name] for name in names}
    for metrics in (["bleu", "rouge", "cider"], ["meteor"], ["nw", "coverage"], ["spice"]):
        with tempfile.TemporaryDirectory() as work:
            score_all(
                {"one": {names[0]: said[names[0]]}},
                {names[0]: known[names[0]]},
                metrics,
                Path(work) / "warm",
                LocalEngine(),
            )
            work_folder = Path(work) / "a"
            with empty_cache():  # parsed captions are kept between runs; here all are new
                seconds, used = _timed(lambda: score_all(systems, truth, metrics, work_folder, LocalEngine()))  # noqa: B023
            yield _row(f"score: {', '.join(metrics)}", len(names), seconds, used, _bytes(work_folder))


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of the processor; the latter count where others share the machine."""
    started, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - started, time.process_time() - used


def _row(name: str, count: int, seconds: float, processor: float, size: int) -> Numbers:
    return {
        "stage": name,
        "pictures a second": count / seconds,
        "processor seconds a picture": processor / count,
        "bytes a picture": size / count,
    }


def engines(count: int = 512, workers: int = 2) -> Iterator[Numbers]:
    """The same features by local workers and by Ray's, in one run; outputs are compared, seconds taken apart."""
    rows, tables = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = pictures(folder, count)
        for name in ("local", "ray"):
            log, out = folder / f"{name}.log", folder / name
            begun, arguments = time.time(), {"backbone": BACKBONE, "log": str(log)}
            with processor_seconds() as spent:
                seconds = _run(TimedFeatures, arguments, files, out, 32, make_engine(name, workers)).seconds
            tables.append([(row["id"], row["elements"], row["error"]) for row in OutputFolder(out).rows()])
            rows.append(
                {
                    "engine": name,
                    "workers": workers,
                    "pictures": count,
                    "seconds": seconds,
                    **_apart(log, begun, seconds, count),
                    "processor seconds": spent,
                }
            )
            yield rows[-1]
    yield {
        "same outputs": tables[0] == tables[1],
        "ray / local, steady": rows[1]["steady pictures a second"] / rows[0]["steady pictures a second"],
        "ray / local, whole": rows[0]["seconds"] / rows[1]["seconds"],
    }


@contextmanager
def processor_seconds() -> Iterator[Numbers]:
    """Processor seconds of this process, of what it started (by kind) and of everybody else, meanwhile."""
    spent: Numbers = {}
    used: dict[int, tuple[str, float]] = {}
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(0.5):
            for pid in _below(os.getpid()):
                used[pid] = _usage(pid) or used.get(pid, ("", 0.0))

    everybody, own = _machine(), time.process_time()
    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield spent
    finally:
        stop.set()
        thread.join()
        spent["driver"] = time.process_time() - own
        for kind, seconds in used.values():
            spent[kind] = spent.get(kind, 0.0) + seconds
        spent["others"] = _machine() - everybody - sum(spent.values())


def _machine() -> float:
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children = [int(child) for child in task.read_text().split()]
            found += [*children, *(one for child in children for one in _below(child))]
    return found


def _usage(pid: int) -> tuple[str, float] | None:
    """What a process is, and its processor seconds; None where it is gone, or dead and not buried."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if not line:
        return None
    kind = (
        "workers"
        if "MapWorker" in line or "spawn_main" in line
        else "raylet and gcs"
        if "/raylet" in line[:400] or "gcs_server" in line[:400]
        else "other processes of the engine"
    )
    return kind, (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


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
        "after the last picture": begun + seconds - max(at["end"]),
        "steady pictures a second": count / working,
        "share of the time that workers look at pictures": inside / (len(workers) * working),
        "processor seconds a picture": used / count,
    }


def select(count: int = 1_000_000, models: int = 9, workers: int = 2) -> list[Numbers]:
    """Selection by threads, by local workers and by Ray; peak memory is that of driver and workers together."""
    rows, results = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made, _ = recombine(folder, count, models)
        named = [option for file in made for option in ("--captions", f"{file.stem}={file}")]
        warm_up(folder, named)
        _command(["compete", "new", str(folder / "competition"), *named])
        for name in (None, "local", "ray"):
            line = ["compete", "select", str(folder / "competition"), "--k", "70", "--workers", str(workers), "--json"]
            line += ["--again", *(["--engine", name] if name else [])]
            for file in (folder / "competition" / "selection").glob("*-*.json"):
                file.unlink()
            seconds, peak, answer = _command(line)
            results.append(json.loads(answer)["pairs"])
            rows.append(
                {"engine": name or "threads", "pictures": count, "models": models, "seconds": seconds, "peak GB": peak}
            )
    rows.append({"same selection": all(result == results[0] for result in results)})
    return rows


def _command(line: Sequence[str]) -> tuple[float, float, str]:
    """Seconds, peak memory of all its processes (GB, private pages) and the output of a command of ours."""
    started, peak = time.perf_counter(), 0.0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "captrial", *line], stdout=output, env=environment(), cwd=ROOT
        )
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(0.2)
        if process.returncode:
            raise RuntimeError(f"captrial {' '.join(line)} ended with {process.returncode}")
        output.seek(0)
        return time.perf_counter() - started, peak, output.read()


def _memory(pid: int) -> float:
    """Resident memory of a process and all below it that is its own, in GB."""
    total = 0.0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = int(status.split("RssAnon:")[1].split()[0]) / 2**20
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return total
    return total + sum(_memory(int(child)) for child in children)


def run(count: int = 256, captions: int = 100_000) -> list[TableRow]:
    """Ray beside local workers, and both beside threads; their results must be the same."""
    *(local, ray), answer = engines(count)
    *(threads, by_local, by_ray), selected = select(captions)
    if not (answer["same outputs"] and selected["same selection"]):
        raise RuntimeError(f"engines disagree: {answer}, {selected}")
    steady, what = "steady pictures a second", f"select of {captions} pictures, 9 models, 2 workers"
    return [
        compare(f"features of {count} pictures by 2 Ray workers", "2 local ones", ray[steady], local[steady], "/s"),
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
    parser.add_argument("--pictures", type=int, help="how many, instead of a stage's own number")
    parser.add_argument("--model", help="the captioner of `stages`, instead of an untrained one")
    arguments = parser.parse_args()
    for name in arguments.stage or STAGES:
        options: Numbers = {"count": arguments.pictures} if arguments.pictures else {}
        if name == "stages":
            options["model"] = arguments.model
        for row in STAGES[name](**options):
            print(json.dumps({"benchmark": name, **row}), flush=True)
    print(json.dumps({"peak GB of this process": peak_memory() / 1024}))


if __name__ == "__main__":
    main()
