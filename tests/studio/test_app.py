"""The studio from outside: what it does with an image, one thing at a time, and what a hostile request achieves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from captrial.captioners.registry import shipped_captioners
from captrial.compete import Competition, SelectionSettings
from captrial.studio.app import create_app, report_policy
from captrial.studio.image_explainer import MAX_BYTES
from captrial.web.security import CLIENT_HEADER

OURS = {CLIENT_HEADER: "test"}
QUERY = {"model": "transformer", "method": "saliency", "file": "red.png"}


@pytest.fixture(scope="module")
def competition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    for model in ("a", "b"):
        (folder / f"{model}.json").write_text(json.dumps({str(n): f"a {model} at place {n}" for n in range(6)}))
    made = Competition.create(folder / "trial", {model: folder / f"{model}.json" for model in ("a", "b")})
    made.select(SelectionSettings(3, 2))
    return folder / "trial"


@pytest.fixture(scope="module")
def client(competition: Path) -> Iterator[TestClient]:
    with TestClient(create_app(competitions=[competition]), base_url="http://127.0.0.1:8770") as made:
        yield made


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("image") / "red.png"
    Image.new("RGB", (60, 40), "red").save(path)
    return path.read_bytes()


def finished(client: TestClient, task: dict[str, Any]) -> dict[str, Any]:
    """A task when it is over, with all its parts."""
    while True:
        found: dict[str, Any] = client.get(f"/api/tasks/{task['number']}").json()
        if found["state"] not in ("waiting", "working"):
            return found
        time.sleep(0.01)


def test_the_page_offers_what_ships_and_runs_no_inline_script(client: TestClient) -> None:
    page = client.get("/")
    assert all(f'<option value="{name}">' in page.text for name in shipped_captioners())
    assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
    assert "<style" not in page.text
    assert "<script>" not in page.text
    for name in ("panel.js", "panel.css", "studio.js", "studio.css", "common.js", "icon.svg"):
        assert client.get(f"/static/{name}").status_code == 200
    assert client.get("/static/app.py").status_code == 404
    assert client.get("/nowhere").status_code == 404
    assert "Back to the start" in client.get("/nowhere").text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", **OURS},
        {"Host": "evil.example:8770", "Origin": "http://evil.example:8770"},  # a name that was made to lead here
    ],
)
def test_other_sites_cannot_use_it(client: TestClient, headers: dict[str, str], red: bytes) -> None:
    assert client.post("/api/explain", params=QUERY, content=red, headers=headers).status_code in (400, 403)


def test_no_page_can_name_a_model_a_method_or_too_much(client: TestClient, red: bytes) -> None:
    for change in ({"model": "/etc"}, {"model": "http://evil.example/v1#m"}, {"method": "magic"}, {"model": []}):
        answer = client.post("/api/explain", params={**QUERY, **change}, content=red, headers=OURS)
        assert answer.status_code == 422
        assert answer.json()["detail"]
    large = client.post("/api/explain", params=QUERY, headers={**OURS, "Content-Length": str(MAX_BYTES + 1)})
    assert large.status_code == 413
    assert client.get("/api/tasks/999").status_code == 404


def test_a_bad_image_gives_an_error_message(client: TestClient) -> None:
    task = client.post("/api/explain", params=QUERY, content=b"nothing", headers=OURS).json()
    found = finished(client, task)
    assert found["state"] == "failed"
    assert found["error"].startswith("red.png: is")
    empty = finished(client, client.post("/api/explain", params=QUERY, content=b"", headers=OURS).json())
    assert "is empty" in empty["error"]


def test_a_report_is_written_once_served_from_its_folder_and_runs_only_its_own_script(
    client: TestClient, competition: Path
) -> None:
    unlabelled = finished(client, client.post("/api/competition/0", headers=OURS).json())
    assert "no selected image has a reference caption" in unlabelled["error"]
    lines = [json.dumps({"id": str(n), "captions": [f"a thing at place {n}"]}) for n in range(6)]
    (competition / "references.jsonl").write_text("\n".join(lines))
    task = finished(client, client.post("/api/competition/0", headers=OURS).json())
    page = client.get(task["results"][0]["address"])
    assert "comes first" in page.text
    assert page.headers["Content-Security-Policy"] == report_policy()
    assert "script-src 'sha256-" in report_policy()
    written = (competition / "report" / "index.html").stat().st_mtime_ns
    finished(client, client.post("/api/competition/0", headers=OURS).json())
    assert (competition / "report" / "index.html").stat().st_mtime_ns == written
    (competition / "secret.html").write_text("not for you")
    for path in ("../secret.html", "%2e%2e/secret.html", "..%2fsecret.html", "figures", "tables/", "nothing.html"):
        assert client.get(f"/competition/0/{path}").status_code in (404, 422)
    assert client.get("/competition/1/index.html").status_code == 404
    assert client.post("/api/competition/7", headers=OURS).status_code == 404
