"""The cost of an image at every stage on one core: `python -m benchmarks.speed.scale stages` (docs/scale.md)."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks.measuring import empty_cache
from captrial.engines.engine import JobResult, Parts
from captrial.engines.engine import run as run_job
from captrial.engines.inputs import entry_parts
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.jobs.caption import CaptionJob
from captrial.engines.jobs.extract_features import FeatureJob, gather
from captrial.engines.shards import OutputFolder
from studies.data_paths import FLICKR8K, KARPATHY_TEST, published_captions

BACKBONE = "efficientnet-lite2"
EXPLAINED = 16  # images whose captions are explained: these take longest
Numbers = dict[str, Any]


def images(folder: Path, count: int) -> list[Path]:
    """Real images, used again and again until there are enough (links of other names)."""
    found = sorted((FLICKR8K / "images").glob("*.jpg"))
    if not found:
        from captrial.toyworld import ToyWorldSettings, write_toyworld

        write_toyworld(folder / "world", ToyWorldSettings(100))
        found = sorted((folder / "world").rglob("*.png"))
    links = folder / "images"
    links.mkdir()
    for number, path in zip(range(count), itertools.cycle(found), strict=False):
        (links / f"{number:06}{path.suffix}").symlink_to(path)
    return sorted(links.iterdir())


class Open(Job):
    """Only opens the images."""

    schema: ClassVar[pa.Schema] = pa.schema([("width", pa.int32())])

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Open them."""
        from captrial.engines.inputs import open_rows

        return open_rows(rows)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """How wide they are."""
        return [{"width": row["image"].width} for row in rows]


def run_on_files(
    job: type[Job], arguments: Numbers, files: Sequence[Path], out: Path, batch: int, engine: Any
) -> JobResult:
    parts = entry_parts("files", ((path.name, str(path)) for path in files), 64)
    return run_job(JobSpec(job, arguments, batch), parts, out, engine)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def untrained(folder: Path) -> Path:
    """A Transformer captioner of the usual size whose weights are random: it says 20 words, the longest it may."""
    import torch

    from captrial.captioners.checkpoint import Checkpoint
    from captrial.captioners.registry import create
    from captrial.language.vocabulary import Vocabulary
    from captrial.vision.registry import load_backbone

    vision = load_backbone(BACKBONE).describe()
    words = Vocabulary.build([[f"word{number}"] for number in range(2500)], 1)
    torch.manual_seed(0)
    captioner = create("transformer-small", words=len(words), features=int(vision["width"]))
    Checkpoint(captioner.eval(), words, vision).save_pretrained(folder / "untrained")
    return folder / "untrained"


def stages(count: int = 160, model: str | None = None) -> Iterator[Numbers]:
    """One worker, one thread: what a core does."""
    import torch

    from captrial.vision.registry import load_backbone

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = images(folder, count)
        size = sum(path.stat().st_size for path in files) / count
        yield {"stage": "images as files", "bytes an image": size}
        steps: list[tuple[str, type[Job], Numbers, int]] = [
            ("open and decode", Open, {}, 32),
            (f"features ({BACKBONE}, 224)", FeatureJob, {"backbone": BACKBONE}, 32),
            ("caption (features and beam 5)", CaptionJob, {"model": model or str(untrained(folder))}, 16),
        ]
        for number, (name, job, arguments, batch) in enumerate(steps):
            spec, out = JobSpec(job, arguments, batch), folder / f"out{number}"
            engine = Loaded(spec)
            before = time.process_time()
            seconds = run_on_files(job, arguments, files, out, batch, engine).seconds
            used = time.process_time() - before
            yield _row(name, count, seconds, used, folder_bytes(out))
        store = folder / "store"
        vision = load_backbone(BACKBONE).describe()
        seconds, used = _timed(lambda: gather(OutputFolder(folder / "out1"), store, vision))
        yield _row("gather features", count, seconds, used, folder_bytes(store))
        for method in ("attention", "integrated_gradients"):
            yield _explaining(method, files[:EXPLAINED], store, folder / method)
    yield from _text_stages()


def _explaining(method: str, files: Sequence[Path], store: Path, out: Path) -> Numbers:
    """The shipped captioner says something (beam 5) and every word is attributed; features are there already."""
    from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
    from captrial.engines.jobs.ground import GroundJob, GroundJobSettings, write_sample
    from captrial.records import Box, ImageRef, Region, Sample

    halves = Region(Box(0.0, 0.0, 128.0, 256.0), "dog"), Region(Box(128.0, 0.0, 256.0, 256.0), "man")
    settings = GroundJobSettings(
        str(shipped_captioners()[DEFAULT_CAPTIONER]), str(store), method, labels=("dog", "man")
    )
    spec = JobSpec(GroundJob, {"settings": settings}, 16)
    parts = entry_parts(
        "items",
        ((path.name, write_sample(Sample(ImageRef(path.name, None, 256, 256), regions=halves))) for path in files),
        64,
    )
    engine = Loaded(spec)
    engine.worker._job(list(parts[0].rows())[:1])  # type: ignore[misc]  # loads the parser of nouns
    seconds, used = _timed(lambda: run_job(spec, parts, out, engine))
    return _row(f"explain: {method}", len(files), seconds, used, folder_bytes(out))


class Loaded:
    """The local engine with the job loaded before the clock starts."""

    def __init__(self, spec: JobSpec) -> None:
        from captrial.engines.engine import Worker

        self.worker = Worker(spec)
        self.worker._job = spec.make()

    def do(self, spec: JobSpec, tasks: Sequence[Any]) -> Parts:
        """Do every task."""
        yield from map(self.worker.do, tasks)


def _text_stages() -> Iterator[Numbers]:
    """Metrics of real captions, one system against five references."""
    from captrial.engines.jobs.score import score_all
    from captrial.engines.local import LocalEngine

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
                LocalEngine(),
                Path(work) / "warm",
            )
            work_folder = Path(work) / "a"
            with empty_cache():  # parsed captions are kept between runs; here all are new
                seconds, used = _timed(lambda: score_all(systems, truth, metrics, LocalEngine(), work_folder))  # noqa: B023
            yield _row(f"score: {', '.join(metrics)}", len(names), seconds, used, folder_bytes(work_folder))


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of the processor; the latter count where others share the machine."""
    started, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - started, time.process_time() - used


def _row(name: str, count: int, seconds: float, processor: float, size: int) -> Numbers:
    return {
        "stage": name,
        "images a second": count / seconds,
        "processor seconds an image": processor / count,
        "bytes an image": size / count,
    }
