"""Commands on a quiet and on a busy machine, with captrial's spin count and with libgomp's own.

    python -m benchmarks.speed.busy_machine [REPEATS]

*Busy*: one endless loop a processor beside the command, so that a fair share is twice the quiet time. The threads of
torch's OpenMP (libgomp) spin for up to 3 ms while they wait for each other; on a busy machine the thread they wait for
does not run meanwhile. captrial shortens that to 0.1 ms (`captrial/__init__.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.measuring import Row, compare, environment, show
from benchmarks.speed.stage_costs import images
from captrial.installation import usable_cpus
from studies.data_paths import FLICKR8K, FLICKR8K_CAPTIONS

LIBGOMP = {"GOMP_SPINCOUNT": "300000"}  # what libgomp does where nothing is set
LIMIT = 300  # seconds after which a command counts as not finished


def commands(folder: Path) -> dict[str, list[str]]:
    """The command lines to time; `{out}` is a new path for every run."""
    photographs = images(folder, 150)
    annotations = json.loads(FLICKR8K_CAPTIONS.read_text())
    few = folder / "few.json"
    few.write_text(json.dumps({**annotations, "images": annotations["images"][:96] + annotations["images"][-32:]}))
    train = ["train", "transformer-small", "--data", str(few), "--images", str(FLICKR8K / "images"), "--out", "{out}"]
    return {
        "caption": ["caption", str(photographs[0].parent), "--out", "{out}.csv"],
        "features": ["features", str(photographs[0].parent), "--out", "{out}"],
        "explain": ["explain", str(photographs[0]), "--out", "{out}"],
        "train": [*train, "--set", "epochs=3"],
    }


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Endless loops in processes of their own, for as long as the context lasts."""
    endless = f"import time\nwhile time.monotonic() < {time.monotonic() + LIMIT}: pass"  # ends also where we are killed
    loops = [subprocess.Popen([sys.executable, "-c", endless]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def wall_time(line: list[str], out: Path, changes: dict[str, str]) -> float:
    """Seconds of one run of a command."""
    full = [sys.executable, "-m", "captrial", *(word.replace("{out}", str(out)) for word in line)]
    started = time.perf_counter()
    subprocess.run(
        full,
        check=True,
        timeout=LIMIT,
        env=environment(**changes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def run(repeats: int = 5) -> list[Row]:
    """Busy seconds with our spin count beside libgomp's; the quiet ones printed beside them."""
    rows = []
    os.environ.pop("OMP_NUM_THREADS", None)
    os.environ.pop("GOMP_SPINCOUNT", None)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, line in commands(folder).items():
            times: dict[tuple[str, str], list[float]] = {}
            wall_time(line, folder / f"{name}-first", {})  # what is compiled and cached on the first run
            for number in range(repeats):
                for machine, loops in (("quiet", 0), ("busy", usable_cpus())):
                    for setting, changes in (("ours", {}), ("libgomp", LIBGOMP)):
                        with busy_loops(loops):
                            taken = wall_time(line, folder / f"{name}-{machine}-{setting}-{number}", changes)
                        times.setdefault((machine, setting), []).append(taken)
            for (machine, setting), taken_all in times.items():
                spread = f"{min(taken_all):.1f} to {max(taken_all):.1f}"
                print(f"{name}, {machine}, {setting}: median {median(taken_all):.1f} s ({spread})", flush=True)
            for machine in ("quiet", "busy"):
                ours, theirs = median(times[machine, "ours"]), median(times[machine, "libgomp"])
                rows.append(compare(f"captrial {name}, {machine} machine", "libgomp's spin count", ours, theirs))
    return rows


def main() -> None:
    """Print the table."""
    show(run(*map(int, sys.argv[1:])))


if __name__ == "__main__":
    main()
