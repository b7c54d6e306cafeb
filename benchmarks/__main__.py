"""Run the benchmarks one after another and print one table: `python -m benchmarks [NAME ...]`.

A benchmark is a module of `benchmarks/speed` or `benchmarks/parity` with a function `run` that returns rows: what is
measured, against which program, both figures, and their ratio (above 1: ours is better). Each runs in a process of its
own. `NAME` is for example `speed.decoding`. `benchmarks/screenshots` makes the images of the documentation.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import Row, show

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


def main(wanted: list[str]) -> int:
    """Run the benchmarks; 1 if one of them failed, 2 if there is no such one."""
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    found = {name: rows_of(name) for name in wanted or names()}
    show([row for rows in found.values() for row in rows or ()])
    failed = [name for name, rows in found.items() if rows is None]
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
