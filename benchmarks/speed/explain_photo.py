"""Explaining one photograph from the command line beside captioning it: processor seconds of whole commands.

    python -m benchmarks.speed.explain_photo [REPEATS]

Start-up, loading and writing are included. *New*: the caption was never analysed before, so spaCy is loaded and finds
its nouns; *known*: its nouns are in the cache. The commands take turns; one thread.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.measuring import Row, compare, environment, show
from benchmarks.speed.stage_costs import images

COMMANDS = {
    "caption": ["caption", "{photo}"],
    "explain --method attention": ["explain", "{photo}", "--method", "attention", "--out", "{out}"],
    "explain (integrated gradients)": ["explain", "{photo}", "--out", "{out}"],
}


def processor_time(line: list[str], photo: Path, out: Path, cache: Path) -> float:
    """Processor seconds of one run of a command."""
    full = [word.replace("{photo}", str(photo)).replace("{out}", str(out)) for word in line]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "captrial", *full],
        check=True,
        env=environment(CAPTRIAL_CACHE=str(cache), OMP_NUM_THREADS="1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(repeats: int = 5) -> list[Row]:
    """`explain` beside `caption`; the ratio below 1 is its inverse cost."""
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        other, photo = images(folder, 2)
        processor_time(COMMANDS["explain --method attention"], other, folder / "first", folder / "new")
        shutil.copytree(folder / "new", folder / "known")
        processor_time(COMMANDS["explain --method attention"], photo, folder / "second", folder / "known")
        for number in range(repeats):
            for kind in ("known", "new"):
                for name, line in COMMANDS.items():
                    cache = folder / f"{kind}-{number}-{len(line)}"
                    shutil.copytree(folder / kind, cache)
                    taken = processor_time(line, photo, folder / f"out-{kind}-{number}-{len(line)}", cache)
                    times.setdefault((kind, name), []).append(taken)
    rows = []
    for (kind, name), taken in times.items():
        base = times[kind, "caption"]
        each = sorted(one / caption for one, caption in zip(taken, base, strict=True))
        times_caption = f"{median(taken) / median(base):.2f} times caption ({each[0]:.2f} to {each[-1]:.2f})"
        print(f"{kind} caption, {name}: median {median(taken):.2f} s, {times_caption}", flush=True)
        if name != "caption":
            rows.append(compare(f"captrial {name}, {kind} caption", "captrial caption", median(taken), median(base)))
    return rows


def main() -> None:
    """Print the table."""
    show(run(*map(int, sys.argv[1:])))


if __name__ == "__main__":
    main()
