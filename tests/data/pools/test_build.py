"""Building pools from folders, shards and several sources; repeated and interrupted runs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from captrial.data.pools import ImagePool, PoolSettings, build_pool
from captrial.errors import DatasetError, InputError, StateError
from captrial.folders import LOCK
from data.pools.photos import encoded, scene

KEPT = [*(f"cats/{n}.jpg" for n in range(4)), *(f"dogs/{n}.jpg" for n in range(4, 7))]


def test_folder(photos: Path, tmp_path: Path) -> None:
    pool = build_pool([photos], tmp_path / "pool")
    assert [image.id for image in pool.images()] == KEPT
    assert pool.classes() == {"cats": 4, "dogs": 3}
    first = pool.images()[0]
    assert (first.path, first.width, first.height, first.label) == (photos / "cats" / "0.jpg", 160, 120, "cats")
    found = {entry.id: (entry.status, entry.copy_of) for entry in pool.left_out()}
    assert found == {
        "zcopies/bytes.jpg": ("exact duplicate", "cats/0.jpg"),
        "zcopies/coded.png": ("near duplicate", "cats/1.jpg"),
        "zcopies/small.webp": ("near duplicate", "cats/2.jpg"),
        "zcopies/trimmed.jpg": ("near duplicate", "cats/3.jpg"),
        "zcopies/cut.jpg": ("unreadable", None),
        "zcopies/page.jpg": ("unreadable", None),
        "zcopies/empty.jpg": ("unreadable", None),
    }
    assert "is a web page" in next(entry.reason for entry in pool.left_out() if entry.id.endswith("page.jpg"))
    assert pool.summary["ignored_files"] == {".txt": 1, "no suffix": 1}
    assert pool.summary["left_out"] == {"exact duplicate": 1, "near duplicate": 3, "unreadable": 3}
    assert pool.open("dogs/4.jpg").size == (160, 120)
    assert ImagePool.load(tmp_path / "pool").images() == pool.images()
    with pytest.raises(InputError, match="has no image 'x'"):
        pool.read("x")


def test_links_and_folders_that_are_closed(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that is a link counts; a circle ends; a folder that may not be read is listed, not lost."""
    links = tmp_path / "links"
    (links / "closed").mkdir(parents=True)
    (links / "cats").symlink_to(photos / "cats")
    (links / "cats again").symlink_to(photos / "cats")
    (links / "circle").symlink_to(links)
    scandir = os.scandir

    def listing(path: str | int) -> object:
        if isinstance(path, str | Path) and Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)
    pool = build_pool([links], tmp_path / "pool")
    assert pool.classes() == {"cats": 4}
    (left,) = pool.left_out()
    assert (left.id, left.status) == ("closed", "unreadable")
    assert "Permission denied" in left.reason
    with pytest.raises(DatasetError, match=r"closed: cannot be listed \(Permission denied\)"):
        build_pool([links / "closed"], tmp_path / "other")


def test_sources_without_images(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("# a comment\n\njust\ntext\n")
    with pytest.raises(DatasetError, match="empty: no images there"):
        build_pool([tmp_path / "empty"], tmp_path / "pool")
    with pytest.raises(DatasetError, match=r"notes\.txt, line 3: 'just' is not an http.*nor is any other line"):
        build_pool([tmp_path / "notes.txt"], tmp_path / "pool")
    assert not (tmp_path / "pool").exists()


def test_exact_duplicates_only(photos: Path, tmp_path: Path) -> None:
    pool = build_pool([photos], tmp_path / "pool", PoolSettings(near_duplicate_distance=None))
    assert pool.summary["left_out"] == {"exact duplicate": 1, "unreadable": 3}


def test_the_same_for_any_number_of_workers_and_again(photos: Path, tmp_path: Path) -> None:
    one = build_pool([photos], tmp_path / "one", PoolSettings(workers=1))
    four = build_pool([photos], tmp_path / "four", PoolSettings(workers=4))
    assert one.table.equals(four.table)
    before = (tmp_path / "one" / "manifest.parquet").read_bytes()
    build_pool([photos], tmp_path / "one", PoolSettings(workers=3))
    assert (tmp_path / "one" / "manifest.parquet").read_bytes() == before


def test_only_changed_images_are_scanned_again(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_pool([photos], tmp_path / "pool")
    scanned: list[str] = []
    from captrial.data.pools import build

    original = build.scan_image
    monkeypatch.setattr(build, "PART", 2)  # small parts, so that a change touches few
    monkeypatch.setattr(build, "scan_image", lambda c, *limits: (scanned.append(c.id), original(c, *limits))[1])
    build_pool([photos], tmp_path / "pool")
    assert len(scanned) == 14  # other parts: everything once more
    scanned.clear()
    build_pool([photos], tmp_path / "pool")
    assert scanned == []
    (photos / "dogs" / "new.jpg").write_bytes(encoded(scene(30)))
    pool = build_pool([photos], tmp_path / "pool")
    assert "dogs/new.jpg" in scanned
    assert len(scanned) <= 9
    assert len(pool) == 8
    for part in (tmp_path / "pool" / "scan").iterdir():
        part.write_bytes(b"damaged")
    assert build_pool([photos], tmp_path / "pool").table.equals(pool.table)


def make_shard(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as shard:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            shard.addfile(info, io.BytesIO(content))
    return path


def test_shards(tmp_path: Path) -> None:
    shard = make_shard(
        tmp_path / "shard-000.tar",
        {
            "a.cls": b"cat\n",
            "a.jpg": encoded(scene(1)),
            "a.seg.png": encoded(scene(2), "PNG"),
            "a.txt": b"a caption",
            "b.png": encoded(scene(3), "PNG"),
            "b.cls": b"dog",
            "c.jpg": b"broken",
            "d/e.v2.jpg": encoded(scene(5)),
        },
    )
    pool = build_pool([shard], tmp_path / "pool")
    assert [(p.id, p.label, p.path) for p in pool.images()] == [
        ("shard-000/a.jpg", "cat", None),
        ("shard-000/b.png", "dog", None),
        ("shard-000/d/e.v2.jpg", None, None),
    ]
    assert pool.read("shard-000/a.jpg") == encoded(scene(1))
    assert pool.open("shard-000/b.png").size == (160, 120)
    assert [entry.id for entry in pool.left_out()] == ["shard-000/c.jpg"]
    assert pool.summary["ignored_files"] == {".seg.png": 1, ".txt": 1}
    unpacked = build_pool([shard], tmp_path / "unpacked", PoolSettings(unpack=True))
    path = unpacked.images()[0].path
    assert path is not None
    assert path.read_bytes() == encoded(scene(1))
    (tmp_path / "unpacked").rename(tmp_path / "moved")
    assert ImagePool.load(tmp_path / "moved").images()[0].path == tmp_path / "moved" / "images" / "shard-000" / "a.jpg"


def test_damaged_and_malicious_shards_are_not_fatal(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    whole = make_shard(folder / "cut.tar", {"a.jpg": encoded(scene(1)), "b.jpg": encoded(scene(2))}).read_bytes()
    (folder / "cut.tar").write_bytes(whole[: 512 + 2000])
    (folder / "noise.tar").write_bytes(os.urandom(5000))
    make_shard(folder / "out.tar", {"../../escape.jpg": encoded(scene(4)), "/root.jpg": encoded(scene(5))})
    make_shard(folder / "good.tar", {"a.jpg": encoded(scene(6))})
    pool = build_pool([folder], tmp_path / "pool", PoolSettings(unpack=True))
    assert [image.id for image in pool.images()] == ["good/a.jpg", "out//root.jpg"]
    reasons = {entry.id: entry.reason for entry in pool.left_out()}
    assert "ends inside it" in reasons["cut/a.jpg"]
    assert "noise.tar is damaged" in reasons["noise"]
    assert "leads out of the pool" in reasons["out/../../escape.jpg"]
    assert not list(tmp_path.rglob("escape.jpg"))
    assert all(path.is_relative_to(tmp_path / "pool") for path in tmp_path.rglob("root.jpg"))


def test_names_and_places_that_clash(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"two images have the id 'cats/0\.jpg'.*--from name=path"):
        build_pool([photos, photos], tmp_path / "pool")
    pool = build_pool([photos, f"again={photos}"], tmp_path / "pool")
    assert len(pool) == 7
    assert pool.images()[0].id == "again/cats/0.jpg"  # the first by id stays
    with pytest.raises(InputError, match="inside each other"):
        build_pool([photos], photos / "pool")
    with pytest.raises(InputError, match="not a pool"):
        build_pool([tmp_path / "pool"], photos)
    with pytest.raises(DatasetError, match="no such folder"):
        build_pool([tmp_path / "none"], tmp_path / "other")
    with pytest.raises(InputError, match="at least one source"):
        build_pool([], tmp_path / "other")
    with pytest.raises(InputError, match="choose 0 to 15"):
        build_pool([photos], tmp_path / "other", PoolSettings(near_duplicate_distance=16))
    with pytest.raises(DatasetError, match="not a finished pool"):
        ImagePool.load(tmp_path)


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(photos: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom captrial.data.pools import build, build_pool\n"
        "def scan(*arguments):\n    print('scanning', flush=True)\n    time.sleep(600)\n"
        "build.scan = scan\nbuild_pool([sys.argv[1]], sys.argv[2])"
    )
    out = tmp_path / "pool"
    other = subprocess.Popen([sys.executable, "-c", code, str(photos), str(out)], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"scanning\n"
        with pytest.raises(StateError, match=rf"process {other.pid} on .* is writing to this pool; wait"):
            build_pool([photos], out)
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert len(build_pool([photos], out)) == 7
    assert not (out / LOCK).exists()


def test_a_folder_of_somebody_else_is_not_a_pool(photos: Path, tmp_path: Path) -> None:
    """Folders `images` and `scan` alone do not make a pool; in a pool, other files stay."""
    foreign = tmp_path / "foreign"
    for name in ("images/mine.jpg", "scan/mine.parquet"):
        (foreign / name).parent.mkdir(parents=True)
        (foreign / name).write_text("mine")
    with pytest.raises(InputError, match="is not a pool"):
        build_pool([photos], foreign)
    build_pool([photos], tmp_path / "pool")
    for name in ("scan/mine.parquet", "images/mine.jpg", "notes.txt"):
        (tmp_path / "pool" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "pool" / name).write_text("mine")
    build_pool([photos], tmp_path / "pool", PoolSettings(max_pixels=1000))
    for folder in (foreign, tmp_path / "pool"):
        assert (folder / "scan" / "mine.parquet").read_text() == "mine"
        assert (folder / "images" / "mine.jpg").read_text() == "mine"
