"""Loading nine caption files of 370 000 rows (the size of the competition of Wan 2022), side by side in one run.

python -m benchmarks.speed.caption_files
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measuring import Row, compare, seconds, show
from captrial.data import read_captions, write_captions

FILES, ROWS = 9, 370_000
WORDS = ["man", "woman", "dog", "cat", "bus", "train", "pizza", "surfboard", "street", "kitchen", "table", "horse"]


def captions(model: int, rows: int) -> dict[str, str]:
    """Captions of ordinary length, different for each file."""
    pick = [WORDS[(row * 7 + model) % len(WORDS)] for row in range(rows + 2)]
    return {str(row): f"a {pick[row]} is next to a {pick[row + 1]}, near {row} {pick[row + 2]}s" for row in range(rows)}


def json_module(path: Path) -> dict[str, str]:
    with path.open() as stream:
        return {str(entry["image_id"]): entry["caption"] for entry in json.load(stream)}


def lines_module(path: Path) -> dict[str, str]:
    with path.open() as stream:
        return {entry["id"]: entry["caption"] for entry in map(json.loads, stream)}


def csv_module(path: Path) -> dict[str, str]:
    with path.open(newline="") as stream:
        return {row["id"]: row["caption"] for row in csv.DictReader(stream)}


def parquet_rows(path: Path) -> dict[str, str]:
    return {row["id"]: row["caption"] for row in pq.read_table(path).to_pylist()}


PEERS: dict[str, tuple[str, Callable[[Path], dict[str, str]]]] = {
    ".json": ("json.load + dict", json_module),
    ".jsonl": ("json.loads a line", lines_module),
    ".csv": ("csv.DictReader", csv_module),
    ".parquet": ("pyarrow to_pylist + dict", parquet_rows),
}


def processor_seconds(read: Callable[[Path], object], path: Path) -> float:
    """Of one call, all threads together: other work on the machine hardly moves it."""
    return seconds(lambda: read(path), clock=time.process_time)


def as_dict(path: Path) -> dict[str, str]:
    return read_captions(path).to_dict()


def run(files: int = 3, rows: int = ROWS) -> list[Row]:
    """Two rows a format: total seconds for all files, ours as ids and texts, and ours as the dict the peer builds.

    Ours checks every row (types, emptiness, two captions for an id); theirs lets the last caption of an id win.
    """
    results: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix, (name, peer) in PEERS.items():
            lists = mapping = theirs = 0.0
            for model in range(files):
                path = Path(folder) / f"captions{suffix}"
                expected = captions(model, rows)
                write_captions(path, expected)
                lists += processor_seconds(read_captions, path)
                mapping += processor_seconds(as_dict, path)
                theirs += processor_seconds(peer, path)
                assert as_dict(path) == peer(path) == expected
            for form, ours in (("as a dict", mapping), ("as ids and texts", lists)):
                results.append(compare(f"{files} x {rows} captions, {suffix[1:]}, {form}", name, ours, theirs))
    return results


def main() -> None:
    show(run(FILES))


if __name__ == "__main__":
    main()
