"""The pool on real photographs (Flickr8k): images per second, and how well duplicates are told from other images.

python -m benchmarks.speed.pool
python -m benchmarks.speed.pool --copies FOLDER STEP   # recall on copies of every STEP-th image, false pairs among all
python -m benchmarks.speed.pool --memory               # peak memory of 370 000 images, decoding left out
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from benchmarks.measuring import Row, compare, peak_memory, show
from captrial.data import open_image
from captrial.data.images import MAX_BYTES
from captrial.data.pools import PoolSettings, build, build_pool
from captrial.data.pools.build import NEAR_DUPLICATE_DISTANCE, scan_image
from captrial.data.pools.duplicates import DRAFT, SIGNATURE_BYTES, _similar, near_duplicates, signature
from captrial.data.pools.sources import PoolCandidate, iterate_folder
from studies.data_paths import DATA

POOL_SIZE = 370_000


def encoded(image: Image.Image, form: str, quality: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, quality=quality)
    return stream.getvalue()


def scaled(image: Image.Image, share: float) -> Image.Image:
    return image.resize((int(image.width * share), int(image.height * share)), Image.Resampling.BICUBIC)


def trimmed(image: Image.Image, share: float) -> Image.Image:
    """Without a margin of `share` of the side on all four sides."""
    dx, dy = image.width * share, image.height * share
    return image.crop((round(dx), round(dy), round(image.width - dx), round(image.height - dy)))


COPIES: dict[str, Callable[[Image.Image], bytes]] = {
    "JPEG quality 75": lambda image: encoded(image, "JPEG", 75),
    "JPEG quality 30": lambda image: encoded(image, "JPEG", 30),
    "WebP quality 50": lambda image: encoded(image, "WebP", 50),
    "half size": lambda image: encoded(scaled(image, 0.5), "JPEG", 90),
    "twice the size": lambda image: encoded(scaled(image, 2), "JPEG", 90),
    "brighter by 20%": lambda image: encoded(ImageEnhance.Brightness(image).enhance(1.2), "JPEG", 90),
    "grey": lambda image: encoded(image.convert("L"), "JPEG", 90),
    "1% trimmed off each side": lambda image: encoded(trimmed(image, 0.01), "JPEG", 90),
    "2% trimmed off each side": lambda image: encoded(trimmed(image, 0.02), "JPEG", 90),
    "4% trimmed off each side": lambda image: encoded(trimmed(image, 0.04), "JPEG", 90),
    "1% trimmed, two thirds, JPEG 60": lambda image: encoded(scaled(trimmed(image, 0.01), 2 / 3), "JPEG", 60),
}


def signed(contents: bytes) -> tuple[int, bytes]:
    return signature(open_image(contents, draft=DRAFT))


def photographs(folder: str = "flickr8k", limit: int | None = None) -> list[PoolCandidate]:
    return list(iterate_folder(DATA / folder / "images"))[:limit]


def rate(work: Callable[[PoolCandidate], object], candidates: list[PoolCandidate]) -> float:
    """Calls a second of processor time, in one thread."""
    start = time.process_time()
    for candidate in candidates:
        work(candidate)
    return len(candidates) / (time.process_time() - start)


def run(limit: int = 1500) -> list[Row]:
    """Images a second a core, ours (read, check, hash, decode, sign) against a bare decode by Pillow."""
    candidates = photographs(limit=limit)
    for candidate in candidates:
        candidate.read(MAX_BYTES)  # both sides find the files in memory
    ours = rate(scan_image, candidates)
    theirs = rate(lambda candidate: Image.open(io.BytesIO(candidate.read(MAX_BYTES))).convert("RGB"), candidates)
    what = f"pool: {len(candidates)} Flickr8k images checked, hashed, signed"
    return [compare(what, "Pillow decode alone", ours, theirs, "/s"), search_time()]


def search_time(count: int = 20_000) -> Row:
    """Near duplicates among random signatures, banded against every pair, in seconds."""
    random = np.random.default_rng(0)
    hashes = random.integers(0, 2**64, POOL_SIZE, dtype=np.uint64)
    signatures = random.integers(0, 256, (POOL_SIZE, SIGNATURE_BYTES), dtype=np.uint8)
    nobody = np.zeros(POOL_SIZE, bool)
    near_duplicates(hashes[:9], signatures[:9], nobody[:9], NEAR_DUPLICATE_DISTANCE)  # compile
    start = time.process_time()
    near_duplicates(hashes, signatures, nobody, NEAR_DUPLICATE_DISTANCE)
    ours = time.process_time() - start
    start = time.process_time()
    for index in range(count):
        np.flatnonzero(np.bitwise_count(hashes[:index] ^ hashes[index]) <= NEAR_DUPLICATE_DISTANCE)
    theirs = (time.process_time() - start) * (POOL_SIZE / count) ** 2
    return compare(f"near duplicates among {POOL_SIZE}", f"numpy, every pair (from {count})", ours, theirs)


def false_pairs(hashes: NDArray[np.uint64], signatures: NDArray[np.uint8], owner: NDArray[np.int64]) -> tuple[int, int]:
    """Pairs of different owners that would be called copies: by the hash alone, and by hash and thumbnail."""
    by_hash = by_both = 0
    for index in range(len(hashes)):
        near = np.flatnonzero(np.bitwise_count(hashes[index + 1 :] ^ hashes[index]) <= NEAR_DUPLICATE_DISTANCE)
        for other in near + index + 1:
            if owner[other] != owner[index]:
                by_hash += 1
                by_both += bool(_similar(signatures[index], signatures[other]))
    return by_hash, by_both


def copies(folder: str, step: int) -> None:
    """Recall on made copies of every `step`-th photograph; false pairs among all photographs and their quarters."""
    whole, quarters, hits = [], [], {name: [0, 0] for name in COPIES}
    for number, candidate in enumerate(photographs(folder)):
        image = open_image(candidate.read(MAX_BYTES))
        original = signed(candidate.read(MAX_BYTES))
        whole.append(original)
        half = image.width // 2, image.height // 2
        boxes = [(x, y, x + half[0], y + half[1]) for x in (0, half[0]) for y in (0, half[1])]
        quarters += [signature(image.crop(box)) for box in boxes]
        if number % step == 0:
            for name, make in COPIES.items():
                hits[name][0] += _is_copy(original, signed(make(image)))
                hits[name][1] += 1
    for name, (found, made) in hits.items():
        print(f"{name:34} {found:5} of {made} found   {100 * found / made:6.2f} %")
    for name, rows, each in (("photographs", whole, 1), ("quarters of photographs", quarters, 4)):
        hashes, signatures = _arrays(rows)
        by_hash, by_both = false_pairs(hashes, signatures, np.arange(len(rows)) // each)
        pairs = len(rows) * (len(rows) - each) // 2
        print(f"{name:34} {by_hash} of {pairs:.3g} pairs alike by the hash alone, {by_both} by hash and thumbnail")


def _arrays(rows: list[tuple[int, bytes]]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    signatures = np.frombuffer(b"".join(row for _, row in rows), np.uint8).reshape(len(rows), -1)
    return np.array([value for value, _ in rows], np.uint64), signatures


def _is_copy(first: tuple[int, bytes], second: tuple[int, bytes]) -> bool:
    hashes, signatures = _arrays([first, second])
    return bool(near_duplicates(hashes, signatures, np.zeros(2, bool), NEAR_DUPLICATE_DISTANCE)[1] == 0)


def memory() -> None:
    """Build a pool of 370 000 empty files whose signatures are made up: what the book-keeping and the search need."""
    random = np.random.default_rng(0)

    def made_up(*_: object) -> dict[str, object]:
        row = random.bytes(SIGNATURE_BYTES)
        looks = int.from_bytes(row[:8], "big")
        return {"width": 1, "height": 1, "hash": row[:16].hex(), "looks": looks, "signature": row, "reason": None}

    build.scan_image = made_up  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(POOL_SIZE):
            path = Path(folder) / "in" / f"class{number % 200:03}" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        pool = build_pool([Path(folder) / "in"], Path(folder) / "pool", PoolSettings(workers=1))
    used = f"{time.process_time():.0f} s of processor time"
    print(f"{len(pool)} images, signatures made up: peak {peak_memory():.0f} MB, {used}")


def main() -> None:
    if "--copies" in sys.argv:
        folder, step = sys.argv[2:4]
        copies(folder, int(step))
    elif "--memory" in sys.argv:
        memory()
    else:
        show(run())


if __name__ == "__main__":
    main()
