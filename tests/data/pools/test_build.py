"""The pool: gathered from folders, shards and a stubborn server; copies found; nothing lost, nothing fatal."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from captrial.cli import main
from captrial.data import image_size
from captrial.data.pools import ImagePool, PoolSettings, build_pool
from captrial.data.pools.download import DownloadSettings, download
from captrial.data.pools.duplicates import SIGNATURE_BYTES, _similar, near_duplicates, signature
from captrial.data.pools.image_pool import draw_classes
from captrial.data.pools.sources import read_url_list
from captrial.errors import DatasetError, InputError

ROOT = Path(__file__).resolve().parents[3]


def scene(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    """A smooth random image, as different from another seed's as two photographs."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def encoded(image: Image.Image, form: str = "JPEG", **options: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes with copies of every sort, and things that are no images."""
    folder = tmp_path / "photos"
    for label, seeds in {"cats": range(4), "dogs": range(4, 7)}.items():
        (folder / label).mkdir(parents=True)
        for seed in seeds:
            (folder / label / f"{seed}.jpg").write_bytes(encoded(scene(seed)))
    copies = folder / "zcopies"
    copies.mkdir()
    (copies / "bytes.jpg").write_bytes((folder / "cats" / "0.jpg").read_bytes())
    (copies / "coded.png").write_bytes(encoded(scene(1), "PNG"))
    (copies / "small.webp").write_bytes(encoded(scene(2).resize((80, 60)), "WebP"))
    (copies / "trimmed.jpg").write_bytes(encoded(scene(3).crop((2, 2, 158, 118)), quality=60))
    (copies / "cut.jpg").write_bytes(encoded(scene(20))[:-300])
    (copies / "page.jpg").write_bytes(b"<!doctype html><title>not found</title>")
    (copies / "empty.jpg").touch()
    (folder / "notes.txt").write_text("hello")
    (folder / ".DS_Store").write_text("hello")
    return folder


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

    def listing(path: str) -> object:
        if Path(path).name == "closed":
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


def test_damaged_and_wicked_shards_are_not_fatal(tmp_path: Path) -> None:
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


def test_url_lists_of_every_form(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("# comment\nhttp://a/1.jpg\n\nhttps://a/2.jpg\ttwo\tcat\nfile:///etc/passwd\tthree\nnonsense\n")
    rows = read_url_list(path)
    assert [(row.url, row.label) for row in rows][:2] == [("http://a/1.jpg", None), ("https://a/2.jpg", "cat")]
    assert len(rows[0].id) == 16
    assert rows[1].id == "two"
    assert [row.problem is None for row in rows] == [True, True, False, False]
    assert rows[2].problem is not None
    assert "urls.txt, line 5: 'file:///etc/passwd' is not an http or https address" in rows[2].problem
    path.write_text('id,url,class\n1,"http://a/x,y.jpg",bird\n2,http://a/z.jpg\n')
    assert [(row.id, row.url, row.label) for row in read_url_list(path)] == [
        ("1", "http://a/x,y.jpg", "bird"),
        ("2", "http://a/z.jpg", None),
    ]
    for content in (b"", b"# nothing\n", b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(DatasetError):
            read_url_list(path)


class Stubborn(BaseHTTPRequestHandler):
    """A server that does everything a server may do to a downloader."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        with server.lock:
            server.asked[self.path] += 1
            server.now += 1
            server.most = max(server.most, server.now)
            attempt = server.asked[self.path]
        try:
            self.answer(server, attempt)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with server.lock:
                server.now -= 1

    def answer(self, server: Server, attempt: int) -> None:
        name = self.path.strip("/").partition("/")[0]
        number = int(self.path.rpartition("/")[2] or 0)
        image = encoded(scene(100 + number))
        if name == "ok":
            time.sleep(server.delay)
            self.send(200, image)
        elif name == "flaky":
            self.send(200, image) if attempt > 2 else self.send(503, b"busy")
        elif name == "busy":
            self.send(200, image) if attempt > 1 else self.send(429, b"wait", {"Retry-After": "1"})
        elif name == "missing":
            self.send(404, b"no")
        elif name == "down":
            self.send(500, b"no")
        elif name == "page":
            self.send(200, b"<html><body>sorry, this photograph is no longer available</body></html>")
        elif name == "empty":
            self.send(200, b"")
        elif name == "declared":
            self.send(200, image, {"Content-Length": str(1 << 40)})
        elif name == "gzip":
            self.send(200, image, {"Content-Encoding": "gzip"})
        elif name == "half":
            self.send(200, image[:-200])
        elif name == "short":
            self.send(200, image, {"Content-Length": str(len(image) + (50 if attempt == 1 else 0))})
            self.close_connection = True
        elif name == "moved":
            self.send(302, b"", {"Location": f"/ok/{number}"})
        elif name == "loop":
            self.send(302, b"", {"Location": self.path})
        elif name == "elsewhere":
            self.send(302, b"", {"Location": "ftp://127.0.0.1/x.jpg"})
        elif name in ("endless", "drip"):
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(image)
            for _ in range(4000):
                self.wfile.write(bytes(1 << 16 if name == "endless" else 1))
                server.sent += 1 << 16
                time.sleep(0.05 if name == "drip" else 0)
            self.close_connection = True

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Stubborn)
        self.lock, self.asked = threading.Lock(), Counter[str]()
        self.now = self.most = self.sent = 0
        self.delay = 0.0
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


QUICK = DownloadSettings(concurrency=4, retries=2, backoff=0.01, timeout=1.0, max_bytes=1 << 20)


def test_downloads_from_a_stubborn_server(server: Server, tmp_path: Path) -> None:
    good = ["ok/1", "flaky/2", "busy/3", "moved/4", "short/5", "half/6"]
    bad = {
        "missing/1": "answered 404",
        "down/1": "answered 500, 3 times",
        "page/1": "a web page",
        "empty/1": "is empty",
        "declared/1": f"has {1 << 40} bytes",
        "gzip/1": "compressed",
        "loop/1": "is not usable",
        "elsewhere/1": "is not usable",
        "endless/1": "more than 1048576 bytes",
        "drip/1": "took longer than 1 s, 3 times",
    }
    lines = [f"{server.url}/{path}\t{path}\tclass{len(path) % 2}" for path in [*good, *bad]]
    listing = tmp_path / "urls.txt"
    listing.write_text(
        "\n".join([*lines, f"{server.url}/ok/1\tagain", "http://127.0.0.1:9/x\tdead", "gopher://x\tgopher"])
    )
    pool = build_pool([listing], tmp_path / "pool", PoolSettings(downloads=QUICK))
    assert [image.id for image in pool.images()] == ["again", "busy/3", "flaky/2", "moved/4", "short/5"]
    left_out = {entry.id: entry for entry in pool.left_out()}
    for name, says in bad.items():
        assert left_out[name].status == "not downloaded"
        assert says in left_out[name].reason, name
    assert left_out["half/6"].status == "unreadable"
    assert left_out["ok/1"].copy_of == "again"
    assert "connection failed" in left_out["dead"].reason
    assert "not an http or https address" in left_out["gopher"].reason
    assert server.most <= 4
    assert server.asked["/missing/1"] == server.asked["/page/1"] == server.asked["/ok/1"] == 1
    assert server.asked["/flaky/2"] == server.asked["/down/1"] == 3
    assert server.sent < 64 << 20  # of the 262 MB on offer
    files = [path for path in (tmp_path / "pool" / "images").rglob("*") if path.is_file()]
    assert sorted({path.suffix for path in files}) == [".jpg", ".jsonl"]
    assert len(files) == 7


def test_finished_downloads_are_not_repeated(server: Server, tmp_path: Path) -> None:
    urls = [f"{server.url}/ok/{n}" for n in range(8)]
    first = download(urls[:5], tmp_path, QUICK)
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write('{"url": "cut sho')
    path = first[urls[0]]
    assert isinstance(path, Path)
    path.write_bytes(path.read_bytes()[:-1])  # not in full any more
    again = download([*urls, urls[1]], tmp_path, QUICK)
    assert all(isinstance(outcome, Path) and outcome.exists() for outcome in again.values())
    assert server.asked == {"/ok/0": 2, **{f"/ok/{n}": 1 for n in range(1, 8)}}


def test_download_inside_a_running_loop(server: Server, tmp_path: Path) -> None:
    import asyncio

    async def notebook() -> dict[str, Path | str]:
        return download([f"{server.url}/ok/1"], tmp_path, QUICK)

    assert isinstance(asyncio.run(notebook())[f"{server.url}/ok/1"], Path)


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    urls = [f"{server.url}/ok/{n}" for n in range(3)]
    names = [path.parent for path in download(urls, tmp_path / "a", QUICK).values() if isinstance(path, Path)]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / names[0].name).write_text("a file where a folder should be")
    with pytest.raises(DatasetError, match="cannot be written"):
        download(urls, tmp_path / "b", QUICK)


@pytest.mark.slow
def test_a_killed_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.delay = 0.02
    listing = tmp_path / "urls.txt"
    listing.write_text("\n".join(f"{server.url}/ok/{n}" for n in range(120)))
    command = [sys.executable, "-m", "captrial", "pool", "build", str(tmp_path / "pool"), "--from", str(listing)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([*command, "--concurrency", "2"], env=environment)
    journal = tmp_path / "pool" / "images" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_bytes().count(b"\n") > 20):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n")
    assert 20 < done < 120
    server.delay = 0.0
    pool = build_pool([listing], tmp_path / "pool")
    assert pool.summary["found"] == 120
    assert "not downloaded" not in pool.summary["left_out"]
    assert sum(server.asked.values()) <= 120 + 2 + 2  # at most what was under way is asked for twice
    assert not list((tmp_path / "pool" / "images").rglob(".*.part"))


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


def test_images_of_one_colour_are_told_apart_by_it() -> None:
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


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["pool", *arguments])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def test_commands(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "pool")
    code, text, _ = run(capsys, "build", out, "--from", str(photos))
    assert code == 0
    assert "near duplicate" in text
    code, text, _ = run(capsys, "build", out, "--from", str(photos), "--near-distance", "-1", "--json")
    assert json.loads(text)["left_out"] == {"exact duplicate": 1, "unreadable": 3}
    code, text, _ = run(capsys, "show", out, "--figure", str(tmp_path / "classes.svg"))
    assert code == 0
    assert "dogs" in text
    assert (tmp_path / "classes.svg").exists()
    code, text, _ = run(capsys, "show", out, "--json", "--left-out")
    assert {row["status"] for row in json.loads(text)["left_out_images"]} == {"exact duplicate", "unreadable"}
    code, text, _ = run(capsys, "show", out, "--left-out")
    assert "page.jpg" in text
    code, text, error = run(capsys, "show", str(photos))
    assert (code, text) == (2, "")
    assert "not a finished pool" in error


@pytest.mark.needs("data")
@pytest.mark.slow
def test_real_photographs_have_few_copies(data: Path, tmp_path: Path) -> None:
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
