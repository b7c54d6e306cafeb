"""The studio from outside: what it does with an image, one thing at a time, and what a hostile request achieves."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.cli import main
from captrial.compete import Competition, SelectionSettings
from captrial.errors import InputError, StateError
from captrial.grounding.score import Grounder
from captrial.studio.app import create_app
from captrial.studio.captioning import MAX_BYTES, Workshop, _named
from captrial.studio.competitions import policy
from captrial.studio.jobs import WAITING, Job, Jobs
from captrial.web.security import CLIENT_HEADER

OURS = {CLIENT_HEADER: "test"}
LOOK = {"model": "transformer", "method": "saliency", "file": "red.png"}


class Shouter:
    """A captioner that gives no gradients."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        return ["a dog" for _ in images]


class Blind:
    """A detector that knows dogs and sees none."""

    name, labels = "blind", ("dog",)

    def detect(self, images: Sequence[Image.Image]) -> list[list[Any]]:
        return [[] for _ in images]


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


def finished(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    """A job when it is over, with all its parts."""
    while True:
        found: dict[str, Any] = client.get(f"/api/jobs/{job['number']}").json()
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
    assert "Back to the studio" in client.get("/nowhere").text


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
    assert client.post("/api/look", params=LOOK, content=red, headers=headers).status_code in (400, 403)


def test_no_page_can_name_a_model_a_method_or_too_much(client: TestClient, red: bytes) -> None:
    for change in ({"model": "/etc"}, {"model": "http://evil.example/v1#m"}, {"method": "magic"}, {"model": []}):
        answer = client.post("/api/look", params={**LOOK, **change}, content=red, headers=OURS)
        assert answer.status_code == 422
        assert answer.json()["detail"]
    large = client.post("/api/look", params=LOOK, headers={**OURS, "Content-Length": str(MAX_BYTES + 1)})
    assert large.status_code == 413
    assert client.get("/api/jobs/999").status_code == 404


def test_a_bad_image_is_an_answer_and_no_failure(client: TestClient) -> None:
    job = client.post("/api/look", params=LOOK, content=b"nothing", headers=OURS).json()
    found = finished(client, job)
    assert found["state"] == "failed"
    assert found["error"].startswith("red.png: is")
    empty = finished(client, client.post("/api/look", params=LOOK, content=b"", headers=OURS).json())
    assert "is empty" in empty["error"]


def test_a_captioner_without_gradients_is_read_and_its_limits_are_said(red: bytes, monkeypatch: Any) -> None:
    workshop = Workshop(["owner/mine"])
    monkeypatch.setitem(workshop._captioners, "owner/mine", Shouter())
    monkeypatch.setattr(workshop, "_judge", (Blind(), Grounder(["dog"])))
    job = Job(1, workshop.steps(["owner/mine"]))
    workshop.look(job, red, "red.png", ["owner/mine"], "saliency")
    preview, said = job.parts
    assert preview["preview"].startswith("data:image/jpeg;base64,")
    assert said["caption"] == "a dog"
    assert "use method='occlusion'" in said["problem"]
    workshop.look(job, red, "red.png", ["owner/mine"], "occlusion")
    assert [word["text"] for word in job.parts[-1]["words"]] == ["a", "dog"]
    assert job.parts[-1]["captioner"] == "owner/mine"


def test_folders_are_called_by_their_names(tmp_path: Path) -> None:
    for name in ("mine/best", "transformer", "other/mine"):
        (tmp_path / name).mkdir(parents=True)
    best, ship, other = (str(tmp_path / name) for name in ("mine/best", "transformer", "other/mine"))
    assert _named([best, ship, other, "owner/model"]) == {
        "mine": best,
        ship: ship,
        other: other,
        "owner/model": "owner/model",
    }
    with pytest.raises(InputError, match="one or two"):
        Workshop().check(["transformer"] * 3, "saliency")
    assert Workshop(["owner/mine"]).names[0] == DEFAULT_CAPTIONER
    assert sorted(Workshop(["owner/mine"]).names) == sorted([*shipped_captioners(), "owner/mine"])


def test_jobs_are_done_one_at_a_time_and_can_be_given_up() -> None:
    jobs, go = Jobs(), threading.Event()
    running: list[int] = []

    def work(job: Job) -> None:
        running.append(job.number)
        assert go.wait(60)
        job.begin("second step")
        job.hand_over({"number": job.number})

    first, second, third = (jobs.add(work, 2) for _ in range(3))
    broken = jobs.add(lambda job: 1 / 0, 1)  # type: ignore[arg-type, return-value]
    jobs.cancel(second.number)
    with pytest.raises(StateError, match="too much is waiting"):
        deque(jobs.add(lambda job: None, 1) for _ in range(WAITING))
    go.set()
    jobs._thread.submit(lambda: None).result(60)  # behind everything else
    assert running == [first.number, third.number]
    assert (first.state, second.state, third.state) == ("done", "cancelled", "done")
    assert first.look() == {**first.look(1), "parts": [{"number": first.number}]}
    assert broken.state == "failed"
    assert "ZeroDivisionError" in (broken.error or "")
    jobs.close()


def test_a_report_is_written_once_served_from_its_folder_and_runs_only_its_own_script(
    client: TestClient, competition: Path
) -> None:
    unlabelled = finished(client, client.post("/api/competition/0", headers=OURS).json())
    assert "no selected image has a reference caption" in unlabelled["error"]
    lines = [json.dumps({"id": str(n), "captions": [f"a thing at place {n}"]}) for n in range(6)]
    (competition / "references.jsonl").write_text("\n".join(lines))
    job = finished(client, client.post("/api/competition/0", headers=OURS).json())
    page = client.get(job["parts"][0]["address"])
    assert "comes first" in page.text
    assert page.headers["Content-Security-Policy"] == policy()
    assert "script-src 'sha256-" in policy()
    written = (competition / "report" / "index.html").stat().st_mtime_ns
    finished(client, client.post("/api/competition/0", headers=OURS).json())
    assert (competition / "report" / "index.html").stat().st_mtime_ns == written
    (competition / "secret.html").write_text("not for you")
    for path in ("../secret.html", "%2e%2e/secret.html", "..%2fsecret.html", "figures", "tables/", "nothing.html"):
        assert client.get(f"/competition/0/{path}").status_code in (404, 422)
    assert client.get("/competition/1/index.html").status_code == 404
    assert client.post("/api/competition/7", headers=OURS).status_code == 404


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The sentence with which `captrial studio` ends at once."""
    with pytest.raises(SystemExit, match="2"):
        main(["studio", *line])
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    return complaint


def test_a_taken_port_and_a_folder_that_is_no_competition_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"--port {port} cannot be used" in refused(capsys, "--port", port)
    assert str(tmp_path) in refused(capsys, "--competition", str(tmp_path))


def test_a_captioner_that_is_none_is_refused_with_the_list_before_the_page_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nobody", "nobody?beam=3", str(tmp_path / "nowhere")):
        complaint = refused(capsys, "--model", DEFAULT_CAPTIONER, "--model", name)
        assert name.partition("?")[0] in complaint
        assert f"there are: {', '.join(shipped_captioners())}" in complaint
    assert "name the model after a #" in refused(capsys, "--model", "http://127.0.0.1:1/v1")


def test_a_detector_that_is_none_is_refused_before_the_page_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no detector is called 'nobody'; there are: localiser, onnx, detr" in refused(capsys, "--regions", "nobody")
    gone = tmp_path / "gone.onnx"
    assert str(gone) in refused(capsys, "--regions", f"onnx:{gone}")
