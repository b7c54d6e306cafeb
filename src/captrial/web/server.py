"""Static files and error pages of a web application of captrial, and ways to run it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from captrial.errors import InputError, StateError
from captrial.html import Templates

LOCAL_HOST = "127.0.0.1"


def mount_static(app: FastAPI, directory: Path) -> None:
    """Serve the application's own static files, and those that all applications share, under `/static`."""
    app.mount("/static", StaticFiles(directory=directory, packages=[("captrial.web", "static")]), name="static")


def render_error(templates: Templates, message: str, **values: object) -> str:
    """The error page, inside the application's own `base.html`."""
    return templates.render("error.html", title="Sorry", message=message, **values)


def listen(port: int) -> socket.socket:
    """A socket on this machine only; 0 is any free port. Raises `InputError` where the port is taken."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOCAL_HOST, port))
    except OSError as error:
        listening.close()
        raise InputError(f"--port {port} cannot be used ({error.strerror}); choose another, or 0 for any") from None
    return listening


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
