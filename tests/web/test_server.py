"""Static files and error pages that applications share, and servers on this machine only."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from captrial.errors import InputError
from captrial.html import Templates
from captrial.web.security import protect
from captrial.web.server import listen, mount_static, render_error, run_in_thread


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
