"""The endpoint captioner against a local server that is busy, breaks, and finally answers."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise, repeat
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from captrial.captioners.batch_captioning import caption_to_file
from captrial.captioners.endpoint import KEY, EndpointCaptioner
from captrial.cli.app import app
from captrial.errors import CaptrialError, InputError
from captrial.records import ImageRef


class Server(ThreadingHTTPServer):
    """Says the colour of an image; fails as often as told."""

    failures = 0
    asked: list[dict[str, object]]
    keys: set[str | None]
    answers: dict[bool, object]  # by whether an image is red, in place of its colour
    times: list[float]  # when each request came
    delays: Iterator[float]  # seconds before each answer; none where they are used up
    open_now: int = 0
    most_open: int = 0
    counting: threading.Lock


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._take_time()
        self.server.keys.add(self.headers.get("Authorization"))
        if self.server.failures > 0:
            self.server.failures -= 1
            return self._answer(503, {"error": "busy"})
        self.server.asked.append(body)
        if body["model"] == "broken":
            return self._answer(400, {"error": "no such model"})
        url = body["messages"][0]["content"][1]["image_url"]["url"]
        image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
        red, green, _ = image.resize((1, 1)).getpixel((0, 0))  # type: ignore[misc]
        text = self.server.answers.get(red > green, "a red\nthing" if red > green else "a green thing")
        message = {"choices": [{"message": {"content": text}}], "usage": {"prompt_tokens": 10, "completion_tokens": 3}}
        return self._answer(200, message)

    def _take_time(self) -> None:
        with self.server.counting:
            self.server.times.append(time.monotonic())
            self.server.open_now += 1
            self.server.most_open = max(self.server.most_open, self.server.open_now)
            delay = next(self.server.delays, 0.0)
        time.sleep(delay)
        with self.server.counting:
            self.server.open_now -= 1

    def _answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        with contextlib.suppress(ConnectionError):  # a client that waits no longer
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.asked, made.keys, made.answers = [], set(), {}
    made.times, made.delays, made.counting = [], iter(()), threading.Lock()
    made.daemon_threads = False  # closing waits for requests that are still answered
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def captioner(server: Server, model: str = "tiny") -> EndpointCaptioner:
    made = EndpointCaptioner.parse(f"http://127.0.0.1:{server.server_address[1]}/v1#{model}")
    made.pause = 0.01
    return made


def test_captions_in_order_after_failures(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret")
    server.failures = 3
    asking = captioner(server)
    colours = ["red", "green", "red", "green", "red"]
    assert asking.caption([Image.new("RGB", (2000, 9), colour) for colour in colours]) == [
        f"a {colour} thing" for colour in colours
    ]
    assert asking.usage.prompt_tokens == 50
    assert server.keys == {"Bearer secret"}


def test_gives_up_with_a_sentence(server: Server) -> None:
    server.failures = 100
    with pytest.raises(CaptrialError, match="503"):
        captioner(server).caption([Image.new("RGB", (9, 9))])
    server.failures = 0
    with pytest.raises(CaptrialError, match=r"in one try.*no such model"):
        captioner(server, "broken").caption([Image.new("RGB", (9, 9))])
    with pytest.raises(InputError, match="name the model"):
        EndpointCaptioner.parse("http://127.0.0.1:1/v1")
    nobody = EndpointCaptioner("http://127.0.0.1:9/v1", "x", pause=0.01)  # more likely a wrong address than a pause
    with pytest.raises(CaptrialError, match=r"cannot be reached.*2 tries.*is the server running"):
        nobody.caption([Image.new("RGB", (9, 9))])
    nobody.reached = True
    with pytest.raises(CaptrialError, match=r"cannot be reached.*5 tries"):
        nobody.caption([Image.new("RGB", (9, 9))])


def test_an_answer_that_takes_too_long_is_asked_for_again(server: Server) -> None:
    server.delays = iter([0.6])  # the first answer only
    asking = captioner(server)
    asking.timeout = 0.2
    assert asking.caption([Image.new("RGB", (9, 9), "red")]) == ["a red thing"]
    assert len(server.times) >= 2
    server.delays = repeat(0.6)
    asking.tries = 2
    with pytest.raises(CaptrialError, match=r"in 2 tries: ReadTimeout"):
        asking.caption([Image.new("RGB", (9, 9), "red")])


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_requests_are_open_than_allowed(server: Server, at_once: int) -> None:
    server.delays = repeat(0.15)
    asking = captioner(server)
    asking.concurrency = at_once
    asking.caption([Image.new("RGB", (9, 9), "red")] * 5)
    assert server.most_open == at_once


def test_pauses_double(server: Server) -> None:
    server.failures = 3
    asking = captioner(server)
    asking.pause = 0.1
    asking.caption([Image.new("RGB", (9, 9), "red")])
    pauses = [later - before for before, later in pairwise(server.times)]
    assert len(pauses) == 3
    for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True):
        assert pause >= 0.99 * least  # an upper bound would be about how busy this machine is
    assert sum(pauses) < 5


@pytest.mark.parametrize("answer", [None, "", " \n", [{"type": "text", "text": "a red thing"}], 7])
def test_an_answer_that_is_no_caption_is_that_images_alone(server: Server, tmp_path: Path, answer: object) -> None:
    server.answers = {True: answer}
    images = []
    for number, colour in enumerate(["green", "red", "green"]):
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{number}.png")
        images.append(ImageRef(str(number), tmp_path / f"{number}.png"))
    said, why, again = captioner(server).try_caption([Image.open(str(image.path)) for image in images])
    assert said == again == "a green thing"
    assert "not a caption" in str(why)
    cost = caption_to_file(captioner(server), images, tmp_path / "said.jsonl")
    assert (cost.images, cost.unreadable) == (2, 1)
    assert "not a caption" in (tmp_path / "said.errors.jsonl").read_text()
    with pytest.raises(InputError, match="not a caption"):
        captioner(server).caption([Image.new("RGB", (9, 9), "red")])


def test_half_an_emoji_can_be_written(server: Server) -> None:
    server.answers = {True: "a thing \ud83d"}
    assert captioner(server).caption([Image.new("RGB", (9, 9), "red")]) == ["a thing ?"]


def test_cost_counts_tokens_and_resumes(server: Server, tmp_path: Path) -> None:
    images = []
    for number in range(4):
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{number}.png")
        images.append(ImageRef(str(number), tmp_path / f"{number}.png"))
    caption_to_file(captioner(server), images[:2], tmp_path / "said.jsonl")
    cost = caption_to_file(captioner(server), images, tmp_path / "said.jsonl")
    assert len(server.asked) == 4
    assert (cost.prompt_tokens, cost.completion_tokens) == (40, 12)


def test_endpoints_need_no_torch(server: Server, tmp_path: Path) -> None:
    """The command line and the competition's way to an endpoint, where torch cannot be imported."""
    (tmp_path / "images").mkdir()
    for number, colour in enumerate(["red", "green"]):
        Image.new("RGB", (8, 8), colour).save(tmp_path / "images" / f"{number}.png")
    address = f"http://127.0.0.1:{server.server_address[1]}/v1#tiny"
    blocked = "import sys; sys.modules.update(torch=None, transformers=None); from captrial.cli import main; main()"

    def run(*line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", blocked, *line], capture_output=True, text=True, timeout=500)

    said = run("caption", str(tmp_path / "images" / "0.png"), "--model", address, "--json")
    assert said.returncode == 0, said.stderr
    assert list(json.loads(said.stdout).values()) == ["a red thing"]
    images = ["--images", str(tmp_path / "images")]
    made = run(
        "compete", "new", str(tmp_path / "c"), "--captioner", f"a={address}", "--captioner", f"b={address}", *images
    )
    assert made.returncode == 0, made.stderr
    lines = (tmp_path / "c.captions" / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["caption"] for line in lines] == ["a red thing", "a green thing"]
    ours = run("caption", str(tmp_path / "images" / "0.png"), "--model", str(tmp_path))
    assert ours.returncode == 2
    assert "captrial[models]" in ours.stderr
    assert "Traceback" not in ours.stderr


def test_the_command_explains_an_endpoint_by_occlusion(server: Server, tmp_path: Path) -> None:
    """Only captions are needed; words of the answer that stay whatever is covered score nothing."""
    Image.new("RGB", (40, 30), "red").save(tmp_path / "image.png")
    source = f"http://127.0.0.1:{server.server_address[1]}/v1#tiny"
    line = ["explain", str(tmp_path / "image.png"), "--model", source, "--method", "occlusion", "--regions", "none"]
    done = CliRunner().invoke(app, [*line, "--out", str(tmp_path / "out"), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["method"] == "occlusion"
    assert found["words"]
    assert len(server.asked) == 26  # the image, and 5 x 5 covered cells
