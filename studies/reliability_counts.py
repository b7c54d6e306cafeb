"""Counts of the long attacks, as the data of docs/reliability.md: kills of the annotation server, malformed inputs.

CAPTRIAL_RESULTS=kills.jsonl pytest --full tests/annotate/test_kill.py
CAPTRIAL_RESULTS=fuzzing.jsonl pytest --full tests/test_fuzzing.py
python -m studies.reliability_counts kills.jsonl fuzzing.jsonl

A file of results may come from several runs, of parts of the tests. Kinds that are in the data already and not in these
results stay there with `--keep`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from captrial.files import atomic_write

OUT = Path(__file__).parent / "results" / "reliability"
Counts = dict[str, dict[str, int]]


def add_up(pieces: Iterable[Mapping[str, Any]], key: str) -> Counts:
    """The counts of all pieces, by the value of a key; of `longest_ms` the largest."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for piece in pieces:
        counts = found[piece[key]]
        longest = max(counts["longest_ms"], piece.get("longest_ms", 0))
        counts.update({**{name: value for name, value in piece.items() if name != key}, "pieces": 1})
        counts["longest_ms"] = longest
    return {
        name: {count: value for count, value in found[name].items() if value or count != "longest_ms"}
        for name in sorted(found)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="files that CAPTRIAL_RESULTS named")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--keep", action="store_true", help="leave kinds that these results do not have as they are")
    arguments = parser.parse_args()
    pieces = [json.loads(line) for path in arguments.results for line in path.read_text().splitlines()]
    kills = add_up((piece for piece in pieces if "database" in piece), "database")
    inputs = add_up((piece for piece in pieces if "case" in piece), "case")
    for name, title, found in (
        ("annotate", "kills of annotate serve under load", kills),
        ("fuzzing", "malformed inputs by kind, each at most 20 s and 1 GiB: read, or refused with a message", inputs),
    ):
        if found:
            path = arguments.out / f"{name}.json"
            if arguments.keep and path.exists():
                found = dict(sorted({**json.loads(path.read_text())[title], **found}.items()))
            atomic_write(path, json.dumps({title: found}, indent=1) + "\n")
            total = sum((Counter(counts) for counts in found.values()), Counter[str]())
            print(
                f"{title}: {len(found)} kinds,",
                ", ".join(f"{total[key]} {key}" for key in total if key != "longest_ms"),
            )


if __name__ == "__main__":
    main()
