"""Downloads: retries, limits, the journal, and servers that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from captrial.data.pools import PoolSettings, build_pool
from captrial.data.pools.download import DownloadSettings, download
from captrial.errors import DatasetError
from data.pools.photos import encoded, scene

ROOT = Path(__file__).resolve().parents[3]


class UnreliableHandler(BaseHTTPRequestHandler):
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
        super().__init__(("127.0.0.1", 0), UnreliableHandler)
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


QUICK = DownloadSettings(concurrency=4, retries=2, backoff=0.01, timeout=1.0, max_bytes=1 << 20, allow_private=True)


def test_downloads_from_an_unreliable_server(server: Server, tmp_path: Path) -> None:
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
def test_a_killed_download_continues(server: Server, tmp_path: Path) -> None:
    server.delay = 0.02
    listing = tmp_path / "urls.txt"
    listing.write_text("\n".join(f"{server.url}/ok/{n}" for n in range(120)))
    command = [sys.executable, "-m", "captrial", "pool", "build", str(tmp_path / "pool"), "--from", str(listing)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([*command, "--concurrency", "2", "--allow-private"], env=environment)
    journal = tmp_path / "pool" / "images" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_bytes().count(b"\n") > 20):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n")
    assert 20 < done < 120
    server.delay = 0.0
    pool = build_pool([listing], tmp_path / "pool", PoolSettings(downloads=DownloadSettings(allow_private=True)))
    assert pool.summary["found"] == 120
    assert "not downloaded" not in pool.summary["left_out"]
    assert sum(server.asked.values()) <= 120 + 2 + 2  # at most what was under way is asked for twice
    assert not list((tmp_path / "pool" / "images").rglob(".*.part"))


def test_private_addresses_are_refused_unless_allowed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAPTRIAL_ALLOW_PRIVATE", raising=False)
    (tmp_path / "urls.txt").write_text(f"{server.url}/ok/1\tnumber\nhttp://localhost:{server.server_port}/ok/2\tname\n")
    pool = build_pool([tmp_path / "urls.txt"], tmp_path / "pool")
    assert {entry.id for entry in pool.left_out()} == {"number", "name"}
    assert all("--allow-private" in entry.reason for entry in pool.left_out())
    assert not server.asked
    allowed = PoolSettings(downloads=DownloadSettings(allow_private=True))
    assert len(build_pool([tmp_path / "urls.txt"], tmp_path / "pool", allowed)) == 2


def test_passwords_are_sent_but_not_written(server: Server, tmp_path: Path) -> None:
    login = server.url.replace("http://", "http://me:s3cret@")
    (tmp_path / "urls.txt").write_text(f"{login}/ok/1\n{login}/missing/2\n{login}/loop/3\n{login}/ok/1\n")
    out = tmp_path / "pool"
    for _ in range(2):
        pool = build_pool([tmp_path / "urls.txt"], out, PoolSettings(downloads=QUICK))
        assert len(pool) == 1
        assert server.asked["/ok/1"] == 1
        written = [path for path in out.rglob("*") if path.is_file()]
        assert not [path for path in written if b"s3cret" in path.read_bytes()]
        assert "s3cret" not in str(pool.table.to_pylist())
        with (out / "images" / "journal.jsonl").open("a") as journal:  # as an earlier version wrote it
            journal.write('{"url": "http://me:s3cret@old/x.jpg", "file": "a/b.jpg", "size": 1}\n')
