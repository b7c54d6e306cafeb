"""Selecting images at the paper's size (370 000 images, 9 models, 36 pairs), next to a plain loop.

python -m benchmarks.speed.selection [--images 370000] [--models 9] [--workers 2]

Captions are recombined from the nine published systems in `../shared/data/captioners` (or `CAPTRIAL_DATA`): the head of
a system's caption of one image and the tail of its caption of another, words exchanged for words of similar
frequency. All systems use the same two images and the same exchange, so that they overlap as they really do. Every
step runs in a process of its own, so that time and peak memory are its own. `--images 3700000` shows the growth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measuring import Row, compare, environment
from studies.data_paths import published_captions

COMMON, BLOCK = 32, 64  # the most frequent words stay; the others are exchanged within blocks of similar frequency
PLAIN_IMAGES = 2000  # how many the plain loop is measured on


def real_captions() -> tuple[list[str], list[list[list[int]]]]:
    """The vocabulary by frequency, and the word ids of every system's captions of the same 5 000 images."""
    systems = []
    for file in published_captions().values():
        rows = sorted(json.loads(file.read_text()), key=lambda row: row["image_id"])
        systems.append([row["caption"].lower().replace(".", " ").replace(",", " ").split() for row in rows])
    counts = Counter(word for system in systems for caption in system for word in caption)
    words = [word for word, _ in counts.most_common() if word.isascii() and word.isalpha()]
    index = {word: number for number, word in enumerate(words)}
    return words, [[[index[w] for w in caption if w in index] for caption in system] for system in systems]


def recombine(folder: Path, images: int, models: int, seed: int = 0) -> tuple[list[Path], float]:
    """Write one Parquet file a model; also returns the share of captions that are unique in the whole pool."""
    words, systems = real_captions()
    generator = np.random.default_rng(seed)
    head, tail = generator.integers(0, len(systems[0]), (2, images))
    shift = generator.integers(0, BLOCK, images)
    ids = pa.array([f"{number:07d}.jpg" for number in range(images)])
    files, hashes = [], []
    for model in range(models):
        texts = _texts(words, systems[model % len(systems)], head, tail, shift)
        files.append(folder / f"model{model}.parquet")
        pq.write_table(pa.table({"id": ids, "caption": texts}), files[-1])
        hashes.append(np.array([hash(text) for text in texts.to_pylist()]))
    everything = np.concatenate(hashes)
    _, counts = np.unique(everything, return_counts=True)
    return files, float((counts == 1).sum() / len(everything))


def _texts(
    words: list[str], captions: list[list[int]], head: np.ndarray, tail: np.ndarray, shift: np.ndarray
) -> pa.Array:
    lengths = np.array([len(caption) for caption in captions])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate([np.array(caption, np.int64) for caption in captions])
    middle = (lengths + 1) // 2
    sizes = middle[head] + (lengths - middle)[tail]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    image = np.repeat(np.arange(len(head)), sizes)
    place = np.arange(offsets[-1]) - offsets[image]
    first = place < middle[head[image]]
    from_tail = starts[tail[image]] + middle[tail[image]] + place - middle[head[image]]
    source = np.where(first, starts[head[image]] + place, from_tail)
    chosen = flat[source]
    last = COMMON + (len(words) - COMMON) // BLOCK * BLOCK  # an incomplete last block stays as it is
    inside = (chosen >= COMMON) & (chosen < last)
    moved = (chosen - COMMON) // BLOCK * BLOCK + (chosen - COMMON + shift[image]) % BLOCK + COMMON
    chosen = np.where(inside, moved, chosen)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(words).take(pa.array(chosen)))
    return pc.binary_join(lists, " ").cast(pa.string())


def plain_loop(files: list[Path], images: int) -> float:
    """Caption pairs a second of a plain loop that builds the n-grams of both captions for every pair."""
    captions = [pq.read_table(file)["caption"][:images].to_pylist() for file in files]
    start = time.perf_counter()
    total = 0
    best: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for i, j in combinations(range(len(files)), 2):
        scored = []
        for image in range(images):
            scored.append((_plain_similarity(captions[i][image].split(), captions[j][image].split()), image))
            total += 1
        best[i, j] = sorted(scored)[:70]
    return total / (time.perf_counter() - start)


def _plain_similarity(first: list[str], second: list[str]) -> float:
    product = 1.0
    for n in range(1, 5):
        one = Counter(zip(*(first[start:] for start in range(n)), strict=False))
        two = Counter(zip(*(second[start:] for start in range(n)), strict=False))
        clipped = (one & two).total()
        union = one.total() + two.total() - clipped
        product *= clipped / union if union else 1.0
    return product**0.25


def command(*arguments: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory (GB) of `captrial compete ...` in a process of its own."""
    code = (
        "import os, sys, time; start = time.perf_counter()\n"
        "from captrial.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "status = open('/proc/self/status').read()\n"  # ru_maxrss would count the parent's memory at the fork
        "peak = int(status.split('VmHWM:')[1].split()[0]) / 2**20\n"
        "print(time.perf_counter() - start, sum(os.times()[:2]), peak, file=sys.stderr)"
    )
    line = [sys.executable, "-c", code, "compete", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds, processor, peak = map(float, done.stderr.strip().splitlines()[-1].split())
    return seconds, processor, peak


def warm_up(folder: Path, named: list[str]) -> None:
    """A selection that is not measured: it compiles what is not compiled yet."""
    command("new", str(folder / "warm"), *named[:4])
    command("select", str(folder / "warm"), "--k", "5", "--json")


def measure(images: int = 370_000, models: int = 9, workers: int = 2) -> dict[str, float]:
    """Seconds of ours and of a plain loop (extrapolated from a part), and what else there is to know."""
    pairs = models * (models - 1) // 2 * images
    with tempfile.TemporaryDirectory() as folder:
        files, unique = recombine(Path(folder), images, models)
        competition = Path(folder) / "competition"
        named = [option for file in files for option in ("--captions", f"{file.stem}={file}")]
        warm_up(Path(folder), named)
        new, new_processor, new_peak = command("new", str(competition), *named)
        chosen = ["select", str(competition), "--k", "70", "--workers", str(workers), "--json", "--design"]
        select, processor, peak = command(*chosen, "discrepancy")
        sample, sample_processor, _ = command(*chosen, "hybrid")  # D is there already: the sample of the pool alone
        plain = pairs / plain_loop(files, min(images, PLAIN_IMAGES))
    return {
        "seconds": select,
        "plain_seconds": plain,
        "unique_captions": unique,
        "processor_seconds": processor,
        "peak_gb": peak,
        "sample_seconds": sample,
        "sample_processor_seconds": sample_processor,
        "new_seconds": new,
        "new_processor_seconds": new_processor,
        "new_peak_gb": new_peak,
        "seconds_a_million_captions": select / (images * models / 1e6),
        "caption_pairs_a_second": pairs / select,
    }


def run(images: int = 370_000, models: int = 9) -> list[Row]:
    found = measure(images, models)
    what = f"select of {images} images, {models} models (Parquet read, tokenised, ranked)"
    against = f"plain Python loop (from {PLAIN_IMAGES} images)"
    return [compare(what, against, found["seconds"], found["plain_seconds"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=370_000)
    parser.add_argument("--models", type=int, default=9)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.images, arguments.models, arguments.workers), indent=2))


if __name__ == "__main__":
    main()
