"""Commands on a quiet and on a busy machine, with captrial's spin count, libgomp's own, and waiting without spinning.

    python -m benchmarks.speed.busy_machine [COMMAND ...] [--repeats 5] [--save FILE]

*Busy*: one endless loop a processor beside the command, so that a fair share is twice the quiet time. The threads of
torch's OpenMP (libgomp) spin for up to 3 ms while they wait for each other; on a busy machine the thread they wait for
does not run meanwhile. captrial shortens that to 0.1 ms (`captrial/__init__.py`). The three settings take turns. Every
run is kept with the processor seconds of the command and what others took of the machine meanwhile (the loops aside):
where that is not near 0, *quiet* was not quiet. `--save` adds to the runs that are in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring import Row, compare, environment, median_rows, show
from benchmarks.processes import machine_seconds, seconds_of
from benchmarks.speed.stage_costs import images
from captrial.files import atomic_write
from captrial.installation import usable_cpus
from studies.data_paths import FLICKR8K, FLICKR8K_CAPTIONS

Run = dict[str, Any]
SETTINGS: dict[str, dict[str, str]] = {
    "ours": {},
    "libgomp": {"GOMP_SPINCOUNT": "300000"},  # what libgomp does where nothing is set
    "passive": {"OMP_WAIT_POLICY": "passive"},
}
MACHINES = {"quiet": 0, "busy": 1}  # endless loops a processor
LIMIT = 300  # seconds after which a command is ended


def commands(folder: Path) -> dict[str, list[str]]:
    """The command lines to time; `{out}` is a new path for every run."""
    photographs = images(folder, 150)
    annotations = json.loads(FLICKR8K_CAPTIONS.read_text())
    few = folder / "few.json"
    few.write_text(json.dumps({**annotations, "images": annotations["images"][:96] + annotations["images"][-32:]}))
    train = ["train", "transformer-small", "--data", str(few), "--images", str(FLICKR8K / "images"), "--out", "{out}"]
    return {
        "caption": ["caption", str(photographs[0].parent), "--out", "{out}.csv"],
        "caption --workers 2": ["caption", str(photographs[0].parent), "--out", "{out}", "--workers", "2"],
        "features": ["features", str(photographs[0].parent), "--out", "{out}"],
        "explain": ["explain", str(photographs[0]), "--out", "{out}"],
        "train": [*train, "--set", "epochs=3"],
    }


@contextmanager
def busy_loops(count: int) -> Iterator[Callable[[], float]]:
    """Endless loops in processes of their own, within the context; gives their processor seconds so far."""
    endless = f"import time\nwhile time.monotonic() < {time.monotonic() + LIMIT}: pass"  # ends also where we are killed
    loops = [subprocess.Popen([sys.executable, "-c", endless]) for _ in range(count)]
    try:
        yield lambda: sum(seconds_of(loop.pid) for loop in loops)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def timed(line: list[str], out: Path, changes: dict[str, str], loops: int = 0) -> dict[str, float]:
    """One run of a command beside endless loops: its wall and processor seconds, and the share others took."""
    full = [sys.executable, "-m", "captrial", *(word.replace("{out}", str(out)) for word in line)]
    with busy_loops(loops) as looping:
        before, machine, looped = resource.getrusage(resource.RUSAGE_CHILDREN), machine_seconds(), looping()
        started = time.perf_counter()
        with suppress(subprocess.TimeoutExpired):  # then it counts with the limit, so that ratios are lower bounds
            subprocess.run(
                full,
                check=True,
                timeout=LIMIT,
                env=environment(**changes),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        wall = time.perf_counter() - started
        after, beside = resource.getrusage(resource.RUSAGE_CHILDREN), looping() - looped
        own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        others = machine_seconds() - machine - own - beside
    return {"wall": wall, "processor": own, "others": max(0.0, others / wall / (os.cpu_count() or 1))}


def measure(names: Sequence[str], repeats: int) -> Iterator[Run]:
    """Runs of commands on both machines with all settings, in turns."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lines = commands(folder)
        for name in names or lines:
            timed(lines[name], folder / f"{name}-first", {})  # what is compiled and cached on the first run
            for number in range(repeats):
                for machine, loops in MACHINES.items():
                    for setting, changes in SETTINGS.items():
                        out = folder / f"{name}-{machine}-{setting}-{number}"
                        found = timed(lines[name], out, changes, loops * usable_cpus())
                        yield {"command": name, "machine": machine, "setting": setting, **found}


def rows(runs: Sequence[Run]) -> list[Row]:
    """Our medians beside those of the other settings; ranges are of the ratios of runs of one turn."""
    taken: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for run in runs:
        taken[run["command"], run["machine"], run["setting"]].append(run["wall"])
    found = []
    for name, machine in dict.fromkeys((run["command"], run["machine"]) for run in runs):
        for setting, what in (("libgomp", "libgomp's spin count"), ("passive", "no spinning")):
            pairs = zip(taken[name, machine, "ours"], taken[name, machine, setting], strict=True)
            turns = [[compare(f"captrial {name}, {machine} machine", what, *pair)] for pair in pairs]
            found += median_rows(turns)
    return found


def run(repeats: int = 5, names: Sequence[str] = (), save: Path | None = None) -> list[Row]:
    """Print the seconds of every command, machine and setting; give the rows that compare them."""
    for name in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        os.environ.pop(name, None)
    runs = json.loads(save.read_text())["runs"] if save and save.exists() else []
    for one in measure(names, repeats):
        runs.append({key: round(value, 2) if isinstance(value, float) else value for key, value in one.items()})
        if save:
            atomic_write(save, json.dumps({"processors": usable_cpus(), "runs": runs}, indent=1) + "\n")
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for one in runs:
        groups[one["command"], one["machine"], one["setting"]].append(one)
    for (name, machine, setting), same in groups.items():
        wall, own, others = ([one[key] for one in same] for key in ("wall", "processor", "others"))
        print(
            f"{name}, {machine}, {setting}: median of {len(same)}: {median(wall):.1f} s "
            f"({min(wall):.1f} to {max(wall):.1f}), processor {median(own):.1f} s, others took {median(others):.0%}"
        )
    return rows(runs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path, help="a JSON file of runs, which these are added to")
    chosen = parser.parse_args()
    show(run(chosen.repeats, chosen.commands, chosen.save))


if __name__ == "__main__":
    main()
