"""What benchmarks share: rows of the table, clocks, memory, an empty cache, our code in a process of its own."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from studies.data_paths import ROOT

Row = dict[str, Any]
COLUMNS = ("what", "against", "ours", "theirs", "ratio")


def compare(what: str, against: str, ours: float, theirs: float, unit: str = "s") -> Row:
    """A row of the table. Its ratio is above 1 where ours is better: more of it in units a second, less in others.

    >>> compare("decoding", "theirs", 20.0, 10.0, "captions/s")["ratio"]
    2.0
    >>> compare("reading", "theirs", 20.0, 10.0, "s")["ratio"]
    0.5
    """
    better, worse = (ours, theirs) if unit.endswith("/s") else (theirs, ours)
    ratio = better / worse if worse else None
    return {"what": what, "against": against, "ours": ours, "theirs": theirs, "ratio": ratio, "unit": unit}


def median_rows(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows of several runs of one benchmark as one: medians, and the lowest and highest ratio as `range`.

    >>> runs = [[compare("reading", "theirs", 1.0, theirs)] for theirs in (2.0, 3.0, 10.0)]
    >>> [(row["ratio"], row["range"]) for row in median_rows(runs)]
    [(3.0, [2.0, 10.0])]
    """
    merged = []
    for same in zip(*runs, strict=True):
        ratios = [row["ratio"] for row in same if row["ratio"] is not None]
        merged.append(
            {
                **same[0],
                "ours": median(row["ours"] for row in same),
                "theirs": median(row["theirs"] for row in same),
                "ratio": median(ratios) if ratios else None,
                "range": [min(ratios), max(ratios)] if ratios else None,
            }
        )
    return merged


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    from studies.printing import print_table

    def number(value: float | None, unit: str) -> str:
        return "–" if value is None else f"{value:.3g} {unit}"

    def spread(row: Row) -> str:
        low, high = row.get("range") or (None, None)
        return f" ({low:.3g} to {high:.3g})" if low is not None and low != high else ""

    cells = [
        (row["what"], row["against"], number(row["ours"], row["unit"]), number(row["theirs"], row["unit"]),
         number(row["ratio"], "x") + spread(row))
        for row in rows
    ]  # fmt: skip
    print_table("captrial beside others", COLUMNS, cells)


def seconds(work: Callable[[], object], repeats: int = 1, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of some runs, wall time unless another clock is given."""
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def peak_memory(who: int = resource.RUSAGE_SELF) -> float:
    """Peak memory of this process so far (or of the largest of its children), in MB."""
    return resource.getrusage(who).ru_maxrss / 1024


@contextmanager
def empty_cache() -> Iterator[None]:
    """Within it nothing is known from earlier runs: what captrial keeps goes to a folder that is removed afterwards."""
    before = os.environ.get("CAPTRIAL_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CAPTRIAL_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["CAPTRIAL_CACHE"]
            else:
                os.environ["CAPTRIAL_CACHE"] = before


def environment(**changes: str) -> dict[str, str]:
    """The environment of a process that is to find this tree: captrial, benchmarks and studies."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **changes}
