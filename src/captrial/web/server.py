"""Static files and error pages of a web application of captrial, and ways to run it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from captrial.errors import InputError, StateError
from captrial.html import Templates

LOCAL_HOST = "127.0.0.1"


def mount_static(app: FastAPI, directory: Path) -> None:
    """Serve the application's own static files, and those that all applications share, under `/static`."""
    app.mount("/static", StaticFiles(directory=directory, packages=[("captrial.web", "static")]), name="static")


def render_error(templates: Templates, message: str, **values: object) -> str:
    """The error page, inside the application's own `base.html`."""
    return templates.render("error.html", title="Sorry", message=message, **values)


def listen(port: int, host: str = LOCAL_HOST) -> socket.socket:
    """A socket, by default on this machine only; port 0 is any free one. Raises `InputError` where it is taken."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        where = "" if host == LOCAL_HOST else f" of --host {host}"
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--port {port}{where} cannot be used ({reason}); choose another, or 0 for any") from None
    return listening


class LimitedProtocol(HttpToolsProtocol):
    """HTTP with limits that uvicorn has not: on the size of the headers, and on the time until a request is complete.

    A client that sends headers without end would fill the memory, and one that never finishes its request would keep a
    connection for ever.
    """

    _head: int  # bytes of headers so far
    _in_head: bool
    _timer: asyncio.TimerHandle | None
    max_head = 64 * 1024  # bytes of the request line and the headers
    max_seconds = 30.0  # from the connection, or the first byte of a later request, until the request is complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        self._head, self._in_head, self._timer = 0, True, None
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, and refuse headers that are too long."""
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > self.max_head and not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
                self.transport.close()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._head, self._in_head = 0, True
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The end of the headers."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The end of the request."""
        self._stop_waiting()
        super().on_message_complete()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.max_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()


@contextmanager
def run_in_thread(app: FastAPI) -> Iterator[str]:
    """Run an application on a free port of this machine, in a thread; yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with socket.create_server((LOCAL_HOST, 0)) as listening:  # bound from here on: no other program can take the port
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise StateError(f"the server did not start on port {port}")
            time.sleep(0.02)
        try:
            yield f"http://{LOCAL_HOST}:{port}"
        finally:
            server.should_exit = True
            thread.join()
