"""Finished pools: damage is noticed, and the class distribution is drawn."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from captrial.data import image_size
from captrial.data.pools import ImagePool, build_pool, verify_pool
from captrial.data.pools.image_pool import MANIFEST, SUMMARY, draw_classes
from captrial.errors import DamagedError, InputError
from captrial.folders import CHECKSUMS
from data.pools.photos import encoded, scene


def test_figure(tmp_path: Path) -> None:
    draw_classes({"cat": 3, "dog": 5}, tmp_path / "few.svg")
    text = (tmp_path / "few.svg").read_text()
    assert text.index("dog") < text.index("cat")  # the largest first
    draw_classes({"cat": 3, "dog": 5}, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
    draw_classes({f"class {n}": 1000 + n for n in range(200)}, tmp_path / "many.png")
    assert image_size(tmp_path / "many.png") == (1350, 540)
    with pytest.raises(InputError, match="choose one of these suffixes"):
        draw_classes({"cat": 1}, tmp_path / "a.doc")


@pytest.mark.parametrize("name", [MANIFEST, SUMMARY])
@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "grown"])
def test_a_damaged_pool_is_not_read(photos: Path, tmp_path: Path, name: str, damage: str) -> None:
    build_pool([photos], tmp_path / "pool")
    path = tmp_path / "pool" / name
    content = bytearray(path.read_bytes())
    if damage == "changed":
        content[len(content) // 2] ^= 1
    path.write_bytes({"cut": content[:-1], "changed": content, "emptied": b"", "grown": content + b" "}[damage])
    with pytest.raises(DamagedError, match=rf"damaged: .*{name}: .*; restore it from a copy, or remake it with"):
        ImagePool.load(tmp_path / "pool")
    assert len(verify_pool(tmp_path / "pool").problems) == 1
    assert len(build_pool([photos], tmp_path / "pool")) == 7  # remade


EMPTY = b'{"files": {"manifest.parquet": []}}'
HUGE = b'{"files": {"manifest.parquet": [{"bytes": 1e400, "blake2b": ""}]}}'


def test_a_damaged_record_of_checksums_is_not_believed(photos: Path, tmp_path: Path) -> None:
    build_pool([photos], tmp_path / "pool")
    for content in (
        b"",
        b"{}",
        b'{"files": [1]}',
        b'{"files": {"manifest.parquet": [{}]}}',
        EMPTY,
        b"[" * 100_000,
        HUGE,
    ):
        (tmp_path / "pool" / CHECKSUMS).write_bytes(content)
        with pytest.raises(DamagedError, match=CHECKSUMS):
            ImagePool.load(tmp_path / "pool")
    (tmp_path / "pool" / CHECKSUMS).unlink()  # a pool of an earlier version
    assert len(ImagePool.load(tmp_path / "pool")) == 7


def test_an_image_that_changed_since_is_not_served(photos: Path, tmp_path: Path) -> None:
    pool = build_pool([photos], tmp_path / "pool")
    assert verify_pool(tmp_path / "pool").problems == ()
    (photos / "cats" / "0.jpg").write_bytes(encoded(scene(77)))
    with pytest.raises(DamagedError, match="has changed since the pool was built"):
        pool.read("cats/0.jpg")
    (photos / "cats" / "1.jpg").unlink()
    found = verify_pool(tmp_path / "pool")
    assert (found.kind, found.files, len(found.problems)) == ("image pool", 9, 2)


def test_a_manifest_that_leads_out_of_the_pool_is_refused(photos: Path, tmp_path: Path) -> None:
    build_pool([photos], tmp_path / "pool")
    (tmp_path / "pool" / CHECKSUMS).unlink()
    table = pq.read_table(tmp_path / "pool" / MANIFEST)
    paths = ["../photos/cats/0.jpg", *table["path"].to_pylist()[1:]]
    place = table.schema.get_field_index("path")
    pq.write_table(table.set_column(place, "path", [paths]), tmp_path / "pool" / MANIFEST)
    with pytest.raises(DamagedError, match="leads out of the pool"):
        ImagePool.load(tmp_path / "pool")
    pq.write_table(table.drop_columns(["hash"]), tmp_path / "pool" / MANIFEST)
    with pytest.raises(DamagedError, match="hash"):
        ImagePool.load(tmp_path / "pool")
