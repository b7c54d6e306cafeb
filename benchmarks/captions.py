"""Loading nine caption files of 370 000 rows (a competition at the size of the MAD paper), side by side in one run.

python -m benchmarks.captions
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

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


def seconds(read: Callable[[Path], object], path: Path) -> float:
    """Processor time of one call, all threads together: other work on the machine hardly moves it."""
    start = time.process_time()
    read(path)
    return time.process_time() - start


def as_dict(path: Path) -> dict[str, str]:
    return read_captions(path).to_dict()


def run(files: int = FILES, rows: int = ROWS) -> list[dict[str, object]]:
    """Two rows a format: total seconds for all files, ours as ids and texts, and ours as the dict the peer builds.

    Ours checks every row (types, emptiness, two captions for an id); theirs lets the last caption of an id win.
    """
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix, (name, peer) in PEERS.items():
            lists = mapping = theirs = 0.0
            for model in range(files):
                path = Path(folder) / f"captions{suffix}"
                expected = captions(model, rows)
                write_captions(path, expected)
                lists += seconds(read_captions, path)
                mapping += seconds(as_dict, path)
                theirs += seconds(peer, path)
                assert as_dict(path) == peer(path) == expected
            for form, ours in (("as a dict", mapping), ("as ids and texts", lists)):
                what = f"{files} x {rows} captions, {suffix[1:]}, {form}"
                row = {
                    "what": what,
                    "against": name,
                    "ours": ours,
                    "theirs": theirs,
                    "ratio": theirs / ours,
                    "unit": "s",
                }
                results.append(row)
    return results


def main() -> None:
    for row in run():
        print(
            f"{row['what']:52} {row['ours']:6.2f} s   {row['against']:26} {row['theirs']:6.2f} s   x{row['ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
