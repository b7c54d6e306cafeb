"""Every benchmark, one after another: `python -m benchmarks [NAME ...]`.

Those that draw pictures for the documents (`annotate_screenshots`, `competition_page`) are run by hand.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DRAWING = {"annotate_screenshots", "competition_page"}


def names() -> list[str]:
    """The benchmarks of this folder that only measure and print."""
    found = {path.stem for path in Path(__file__).parent.glob("*.py") if path.stem[0] != "_"}
    return sorted(found - DRAWING)


def main(wanted: list[str]) -> int:
    """Run the benchmarks, each in a process of its own; 1 if one of them failed, 2 if there is no such one."""
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted or names():
        print(f"\n== python -m benchmarks.{name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
