"""Run the benchmarks one after another and print one table: `python -m benchmarks [NAME ...] [--runs N] [--save FILE]`.

A benchmark is a module of `benchmarks/speed` or `benchmarks/parity` with a function `run` that returns rows: what is
measured, against which program, both figures, and their ratio (above 1: ours is better). Each runs in a process of its
own. `NAME` is for example `speed.decoding`. With `--runs 5` the table has the medians of five runs and the range of
the ratio; `--save` writes it as JSON. `benchmarks/screenshots` makes the images of the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Row, median_rows, show

FOLDER = Path(__file__).parent
KINDS = ("parity", "speed")
CALL = "import json, sys; from benchmarks.{name} import run; json.dump(run(), open(sys.argv[1], 'w'))"


def names() -> list[str]:
    """The benchmarks that return rows, as `speed.decoding`."""
    paths = [path for kind in KINDS for path in (FOLDER / kind).glob("*.py")]
    sources = {f"{path.parent.name}.{path.stem}": path.read_text() for path in paths}
    return sorted(name for name, source in sources.items() if re.search(r"^def run\(", source, re.MULTILINE))


def rows_of(name: str) -> list[Row] | None:
    """The rows of one benchmark; None if it failed."""
    print(f"\n== benchmarks.{name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.json"
        done = subprocess.run([sys.executable, "-c", CALL.format(name=name), str(rows)], check=False)
        return json.loads(rows.read_text()) if not done.returncode else None


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks; 1 if one of them failed, 2 if there is no such one."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=1, help="runs of each benchmark; the table has their medians")
    parser.add_argument("--save", type=Path, help="write the table to this JSON file")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in names()]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    runs = {name: [rows_of(name) for _ in range(chosen.runs)] for name in chosen.names or names()}
    failed = [name for name, found in runs.items() if None in found]
    medians = {name: median_rows([rows for rows in found if rows is not None]) for name, found in runs.items()}
    show([row for rows in medians.values() for row in rows])
    if chosen.save:
        load = round(os.getloadavg()[2], 1)  # of the last 15 minutes
        chosen.save.write_text(json.dumps({"runs": chosen.runs, "load": load, "benchmarks": medians}, indent=1) + "\n")
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
