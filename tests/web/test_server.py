"""Static files and error pages that applications share, and servers on this machine only."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from captrial.errors import InputError
from captrial.html import Templates
from captrial.web.security import protect
from captrial.web.server import LimitedProtocol, listen, mount_static, render_error, run_in_thread


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    (tmp_path / "own.js").write_text("// own")
    made = FastAPI()
    mount_static(made, tmp_path)
    return made


def test_static_files_are_the_applications_own_and_the_shared_ones(app: FastAPI, tmp_path: Path) -> None:
    (tmp_path.parent / "secret.js").write_text("// not for you")
    with TestClient(app) as client:
        assert client.get("/static/own.js").text == "// own"
        assert "export async function request" in client.get("/static/common.js").text
        assert client.get("/static/icon.svg").headers["content-type"] == "image/svg+xml"
        for path in ("/static/none.js", "/static/..%2fsecret.js", "/static/../server.py"):
            assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("package", "values"), [("captrial.annotate.web", {"person": None}), ("captrial.studio", {"version": "1"})]
)
def test_errors_are_pages_in_the_applications_own_layout(app: FastAPI, package: str, values: dict[str, object]) -> None:
    templates = Templates(package, "captrial.web")
    protect(app, lambda message: render_error(templates, f"{message} <b>", **values))
    with TestClient(app) as client:
        page = client.get("/nowhere")
        assert page.status_code == 404
        assert "Not Found &lt;b&gt;" in page.text
        assert '<a href="/">' in page.text
        assert client.get("/api/nowhere").json() == {"detail": "Not Found"}


def test_an_application_runs_in_a_thread_on_this_machine(app: FastAPI) -> None:
    with run_in_thread(app) as address:
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{address}/static/own.js").text == "// own"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/static/own.js")


def test_a_port_that_is_taken_is_an_input_error() -> None:
    with listen(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--port {port} cannot be used"):
            listen(port)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an application with limits, which are short here."""
    monkeypatch.setattr(LimitedProtocol, "max_seconds", 1.0)
    app = FastAPI()
    app.get("/")(lambda: "hello")
    app.post("/")(_length)
    protect(app, lambda message: message)
    server = uvicorn.Server(uvicorn.Config(app, http=LimitedProtocol, log_level="error"))
    with listen(0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


OURS = b"Host: 127.0.0.1\r\nX-Captrial-Client: test\r\n"  # of a request that changes something


async def _length(request: Request) -> int:
    return len(await request.body())


def asked(port: int, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(content)
        return client.recv(65536)


CHUNKED = b"POST / HTTP/1.1\r\n" + OURS + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "headers": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Long: " + b"x" * 10_000 + b"\r\n"),
    "headers after the body": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X-Long: " + b"x" * 10_000 + b"\r\n"),
    "notes at the parts of the body": (CHUNKED, b"1;" + b"x" * 10_000 + b"\r\nx\r\n"),
    "body": (b"POST / HTTP/1.1\r\n" + OURS + b"Content-Length: 900000000\r\n\r\n", b"x" * 10_000),
}


@pytest.mark.parametrize(("start", "more"), ENDLESS.values(), ids=list(ENDLESS))
def test_requests_without_end_are_refused(start: bytes, more: bytes, limited: int) -> None:
    """600 MB of headers were kept in memory, before the body and after it."""
    sent = 0
    with socket.create_connection(("127.0.0.1", limited), timeout=60) as client, suppress(OSError):
        client.sendall(start)
        while sent < 50_000_000:  # until the connection is closed under us
            client.sendall(more)
            sent += len(more)
    assert sent < 10_000_000  # what the system buffers, not what the server keeps


def test_long_headers_are_read(limited: int) -> None:
    long = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 30_000 + b"\r\n\r\n"
    assert asked(limited, long).startswith(b"HTTP/1.1 200")


def test_requests_that_are_never_finished_end_and_lock_nobody_out(limited: int) -> None:
    beginnings = (b"", b"GET / HTTP/1.1\r\nHost:", b"POST / HTTP/1.1\r\n" + OURS + b"Content-Length: 9\r\n\r\nxx")
    with ExitStack() as stack:
        half_open = []
        for number in range(210):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", limited), timeout=60))
            client.sendall(beginnings[number % 3])
            half_open.append(client)
        assert asked(limited, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 200")
        for client in half_open:
            with suppress(ConnectionResetError):
                assert client.recv(1000) == b""  # closed by the server
    assert asked(limited, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_connection_that_is_used_again_has_its_time_anew(limited: int) -> None:
    with socket.create_connection(("127.0.0.1", limited), timeout=60) as client:
        for _ in range(3):
            client.sendall(b"POST / HTTP/1.1\r\n" + OURS + b"Content-Length: 3\r\n\r\n")
            time.sleep(0.2)
            client.sendall(b"abc")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)
