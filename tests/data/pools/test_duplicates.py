"""Exact and near duplicates: the banded search finds the same pairs as comparing all."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from captrial.data.pools import build_pool
from captrial.data.pools.duplicates import SIGNATURE_BYTES, _similar, near_duplicates, signature
from data.pools.photos import encoded


@given(st.integers(0, 2**32 - 1), st.integers(0, 15), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_banded_search_misses_nothing(seed: int, distance: int, count: int) -> None:
    random = np.random.default_rng(seed)
    base = random.integers(0, 2**64, 4, dtype=np.uint64)
    hashes = base[random.integers(0, 4, count)]
    for _ in range(int(random.integers(0, 14))):
        hashes = hashes ^ (np.uint64(1) << random.integers(0, 64, count, dtype=np.uint64))
    looks = random.integers(0, 256, (2, SIGNATURE_BYTES), dtype=np.uint8)
    signatures = looks[random.integers(0, 2, count)]
    skip = random.random(count) < 0.2
    expected = np.full(count, -1)
    for i in range(count):
        for j in range(i):
            near = int(hashes[i] ^ hashes[j]).bit_count() <= distance and _similar(signatures[i], signatures[j])
            if near and not skip[i] and not skip[j] and expected[j] < 0:
                expected[i] = j
                break
    assert near_duplicates(hashes, signatures, skip, distance).tolist() == expected.tolist()


def test_images_of_one_colour_are_distinguished_by_it() -> None:
    colours = ["red", "green", "red", (252, 2, 1), "black", "white"]
    hashes, signatures = zip(*(signature(Image.new("RGB", (50, 40), colour)) for colour in colours), strict=True)
    rows = np.stack([np.frombuffer(row, np.uint8) for row in signatures])
    found = near_duplicates(np.array(hashes, np.uint64), rows, np.zeros(6, bool), 10)
    assert found.tolist() == [-1, -1, 0, 0, -1, -1]


def test_large_searches_are_not_quadratic() -> None:
    random = np.random.default_rng(0)
    hashes = random.integers(0, 2**64, 50_000, dtype=np.uint64)
    signatures = random.integers(0, 256, (50_000, SIGNATURE_BYTES), dtype=np.uint8)
    hashes[49_000:], signatures[49_000:] = hashes[:1000] ^ np.uint64(0x0101), signatures[:1000]
    near_duplicates(hashes[:10], signatures[:10], np.zeros(10, bool), 10)  # compile
    start = time.process_time()
    found = near_duplicates(hashes, signatures, np.zeros(50_000, bool), 10)
    assert found[49_000:].tolist() == list(range(1000))
    assert (found[:49_000] == -1).all()
    assert time.process_time() - start < 10  # every pair, one by one, would take several times as long


@pytest.mark.needs("data")
@pytest.mark.slow
def test_real_photographs_have_few_duplicates(data: Path, tmp_path: Path) -> None:
    images = sorted((data / "flickr8k" / "images").iterdir())[:400]
    folder = tmp_path / "photos"
    folder.mkdir()
    for path in images:
        (folder / path.name).symlink_to(path)
    for path in images[:60]:
        with Image.open(path) as image:
            width, height = image.size
            copy = image.convert("RGB").crop((2, 2, width - 2, height - 2)).resize((width * 2 // 3, height * 2 // 3))
        (folder / f"{path.stem}_copy.jpg").write_bytes(encoded(copy, quality=60))
    pool = build_pool([folder], tmp_path / "pool")
    found = {entry.id: entry for entry in pool.left_out()}
    assert pool.summary["left_out"] == {"near duplicate": 60}
    for entry in found.values():
        assert entry.copy_of is not None
        assert entry.id.replace("_copy", "") == entry.copy_of.replace("_copy", "")
    manifest = pq.read_table(tmp_path / "pool" / "manifest.parquet")
    assert manifest.column_names[:5] == ["id", "class", "path", "shard", "offset"]
