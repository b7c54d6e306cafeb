"""`caption`, `features` and `score` on an engine, as a user would type them."""

from __future__ import annotations

import io
import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from captrial.captioners.endpoint import EndpointCaptioner
from captrial.cli.app import app
from captrial.engines.jobs.caption import CaptionSettings, caption_all, read_captions_of
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder
from captrial.errors import CaptrialError, InputError, MismatchError
from engines.example_jobs import serving, write_images


class Teller(BaseHTTPRequestHandler):
    """Says how wide an image is; has no caption for those that are 13 wide; or answers a status, to all or some."""

    status = 200
    only: int | None = None  # the width that the status is for
    asked: list[int]  # widths
    together: list[int]
    busy = 0

    def do_POST(self) -> None:
        type(self).busy += 1
        type(self).together.append(type(self).busy)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        url = body["messages"][0]["content"][1]["image_url"]["url"]
        width = Image.open(io.BytesIO(b64decode(url.partition(",")[2]))).width
        type(self).asked.append(width)
        threading.Event().wait(0.05)
        self.send_response(self.status if self.only in (None, width) else 200)
        content = json.dumps({"choices": [{"message": {"content": f"{width} wide"}}]} if width != 13 else {}).encode()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        type(self).busy -= 1

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def address() -> Iterator[str]:
    Teller.together, Teller.asked, Teller.busy = [], [], 0
    with serving(Teller) as base:
        yield f"{base}/v1#teller"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images", range(8, 20))


def test_captions_of_a_folder_many_requests_in_flight(images: Path, tmp_path: Path, address: str) -> None:
    outcome = caption_all([images], tmp_path / "out", CaptionSettings(address, concurrency=6, part=7), LocalEngine())
    assert (outcome.parts, outcome.rows, outcome.errors) == (2, 13, 2)
    assert dict(read_captions_of(tmp_path / "out")) == {
        f"{width}.png": f"{width} wide" for width in range(8, 20) if width != 13
    }
    errors = {row["id"]: row["error"] for row in OutputFolder(tmp_path / "out").rows() if row["error"]}
    assert set(errors) == {"broken.png", "13.png"}
    assert "not a caption" in errors["13.png"]
    assert max(Teller.together) > 1


def test_one_answer_that_is_no_caption_costs_no_other_image(images: Path, tmp_path: Path, address: str) -> None:
    caption_all([images], tmp_path / "out", CaptionSettings(address, concurrency=3), LocalEngine())
    assert sorted(Teller.asked) == list(range(8, 20))


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_a_image_that_an_endpoint_breaks_on_is_an_error_of_its_row(
    images: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """One that answers others: told apart from one that is broken by an image that nothing is wrong with."""
    monkeypatch.setattr(EndpointCaptioner, "pause", 0.01)
    monkeypatch.setattr(Teller, "status", status)
    with monkeypatch.context() as patch:
        patch.setattr(Teller, "only", 17)
        assert caption_all([images], tmp_path / "out", address, LocalEngine()).errors == 3
    errors = {row["id"]: row["error"] for row in OutputFolder(tmp_path / "out").rows() if row["error"]}
    assert f"but not this one: answered {status}" in errors["17.png"]
    with pytest.raises(CaptrialError, match=rf"1 of 1 parts.*answered {status}"):
        caption_all([images], tmp_path / "broken", address, LocalEngine())


def test_a_run_goes_on_with_other_requests_in_flight(images: Path, tmp_path: Path, address: str) -> None:
    def skipped(model: str, concurrency: int | None = None) -> int:
        return caption_all(
            [images], tmp_path / "out", CaptionSettings(model, None, concurrency, 7), LocalEngine()
        ).skipped

    assert skipped(address, 6) == 0
    assert skipped(address, 1) == skipped(address) == skipped(f"{address}?concurrency=2&timeout=9") == 2
    with pytest.raises(MismatchError, match="another arguments"):
        skipped(f"{address}?prompt=What is it?")
    with pytest.raises(InputError, match="option concurrency cannot be 'many'"):
        skipped(f"{address}?concurrency=many")


def test_requests_in_flight_are_as_many_as_asked_for(images: Path, tmp_path: Path, address: str) -> None:
    caption_all([images], tmp_path / "out", f"{address}?concurrency=1", LocalEngine())
    assert max(Teller.together) == 1
    files = [str(images / f"{width}.png") for width in range(8, 12)]
    done = CliRunner().invoke(app, ["caption", *files, "--model", address, "--concurrency", "1", "--json"])
    assert (done.exit_code, max(Teller.together)) == (0, 1), done.output


def test_the_verb_writes_shards_or_one_file(images: Path, tmp_path: Path, address: str) -> None:
    line = ["caption", str(images), "--model", address, "--json", "--out"]
    done = CliRunner().invoke(app, [*line, str(tmp_path / "shards")])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["images"], facts["unreadable"]) == (13, 2)
    assert pq.read_table(tmp_path / "shards" / "part-000000.parquet").column_names == ["id", "caption", "error"]
    again = CliRunner().invoke(app, [*line, str(tmp_path / "shards")])
    assert (facts["parts"], facts["reused"], json.loads(again.stdout)["reused"]) == (1, 0, 1)
    CliRunner().invoke(app, [*line, str(tmp_path / "all.jsonl")], catch_exceptions=False)
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 11
    with pytest.raises(InputError, match="--out FOLDER"):
        CliRunner().invoke(app, ["caption", str(images), "--model", address], catch_exceptions=False)


def test_an_endpoint_that_is_not_there_fails_parts_not_rows(images: Path, tmp_path: Path) -> None:
    class Hurried(LocalEngine):
        def do(self, spec, tasks):  # type: ignore[no-untyped-def]
            from captrial.engines.engine import Worker

            worker = Worker(spec)
            worker._job = spec.make()
            worker._job.captioner.tries = 1  # type: ignore[attr-defined]
            yield from map(worker.do, tasks)

    with pytest.raises(CaptrialError, match=r"1 of 1 parts could not be done.*cannot be reached"):
        caption_all([images], tmp_path / "out", CaptionSettings("http://127.0.0.1:9/v1#x", concurrency=2), Hurried())
    assert not OutputFolder(tmp_path / "out").shards()


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_an_endpoint_that_refuses_fails_parts_not_rows(
    images: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Teller, "status", status)
        with pytest.raises(CaptrialError, match=rf"1 of 1 parts.*answered {status}.*check the key"):
            caption_all([images], tmp_path / "out", address, LocalEngine())
    assert not OutputFolder(tmp_path / "out").shards()
    assert caption_all([images], tmp_path / "out", address, LocalEngine()).errors == 2


def test_two_images_of_one_name_are_not_one(tmp_path: Path, address: str) -> None:
    for folder, width in (("a", 8), ("b", 9)):
        (tmp_path / folder).mkdir()
        Image.new("RGB", (width, 5), "red").save(tmp_path / folder / "same.png")
    line = ["caption", str(tmp_path / "a"), str(tmp_path / "b"), "--model", address, "--out"]
    with pytest.raises(InputError, match=r"two images are called same\.png"):
        CliRunner().invoke(app, [*line, str(tmp_path / "all.jsonl")], catch_exceptions=False)
    assert not (tmp_path / "all.jsonl").exists()
    done = CliRunner().invoke(app, [*line, str(tmp_path / "all")])
    assert done.exit_code == 0, done.output
    assert sorted(read_captions_of(tmp_path / "all")) == [("same.png", "8 wide"), ("same.png", "9 wide")]


def test_another_model_of_the_same_name_is_not_taken_for_finished(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was trained on: its folder has the same name and another best checkpoint."""

    class Says:
        def caption(self, seen: list[Image.Image]) -> list[str]:
            return ["a thing"] * len(seen)

    monkeypatch.setattr("captrial.engines.jobs.caption.load_captioner", lambda *_: Says())
    weights = tmp_path / "run" / "best" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"one")

    def caption() -> int:
        return caption_all(
            [images], tmp_path / "out", CaptionSettings(str(tmp_path / "run"), part=7), LocalEngine()
        ).skipped

    assert (caption(), caption()) == (0, 2)
    (tmp_path / "run" / "metrics.csv").write_text("epoch\n")  # no part of the captioner
    assert caption() == 2
    weights.write_bytes(b"other")
    with pytest.raises(MismatchError, match=r"another model\)"):
        caption()
