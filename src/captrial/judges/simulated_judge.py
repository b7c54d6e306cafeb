"""Simulated judges with known accuracy and biases, and a local server that answers for them as an endpoint would.

For planning (how many votes of people does a judge of this kind save?) and for tests: nothing leaves the machine.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from captrial.errors import InputError
from captrial.files import content_hash

_CAPTION = re.compile(r"^The (?:first |second )?caption: (.*)$", re.MULTILINE)
_LARGEST = 64 << 20  # bytes of a request


@dataclass(frozen=True)
class SimulatedJudge:
    """A judge that is right with probability `accuracy`, but for its biases.

    With probability `position_bias` it prefers what is shown first, with `length_bias` the longer caption (by words),
    with `tie_rate` neither; these come one after the other, then its own opinion. Answers depend on `seed` and on the
    question alone, so both orders of one pair are two independent draws.

    >>> SimulatedJudge(accuracy=1).choose("a dog", "a cat sleeps", first_is_better=True)
    'first'
    """

    accuracy: float = 0.8
    position_bias: float = 0.0
    length_bias: float = 0.0
    tie_rate: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("accuracy", "position_bias", "length_bias", "tie_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} {getattr(self, name)}: must be from 0 to 1")

    def choose(self, first: str, second: str, first_is_better: bool, item: str = "") -> str:
        """`first`, `second` or `tie`; `item` tells apart questions with equal captions."""
        draw = random.Random(content_hash(json.dumps([self.seed, item, first, second])))
        longer = len(first.split()) - len(second.split())
        if draw.random() < self.position_bias:
            return "first"
        if draw.random() < self.length_bias and longer:
            return "first" if longer > 0 else "second"
        if draw.random() < self.tie_rate:
            return "tie"
        right = draw.random() < self.accuracy
        return "first" if right == first_is_better else "second"


@dataclass
class ServerFault:
    """What a server does instead of a proper answer; None keeps the usual."""

    status: int = 200
    text: str | None = None  # of the message
    body: bytes | None = None  # of the whole answer
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before the answer
    message: dict[str, Any] | None = None
    model: str | None = None


Better = Callable[[str, str], bool]  # whether the first of two captions is better
Faults = Callable[[int, dict[str, Any]], ServerFault | None]  # by the number of the request, from 0, and its body


@dataclass
class SimulatedServer:
    """An endpoint on this machine that answers as a `SimulatedJudge`; use `serve_judge`."""

    judge: SimulatedJudge
    first_is_better: Better
    faults: Faults = lambda number, body: None
    usage: dict[str, int] | None = field(default_factory=lambda: {"prompt_tokens": 1000, "completion_tokens": 50})
    base: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)  # the Authorization headers that came
    most_open: int = 0
    _open: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any], key: str | None) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers of the answer to a request."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.keys.add(key)
            self._open += 1
            self.most_open = max(self.most_open, self._open)
        try:
            fault = self.faults(number, body) or ServerFault()
            time.sleep(fault.delay)
            if fault.body is not None:
                return fault.status, fault.body, fault.headers
            text = self._text(body) if fault.text is None else fault.text
            message = {"role": "assistant", "content": text} if fault.message is None else fault.message
            said = {"model": fault.model or body["model"], "choices": [{"message": message}], "usage": self.usage}
            return fault.status, json.dumps(said).encode(), fault.headers
        finally:
            with self._lock:
                self._open -= 1

    def _text(self, body: dict[str, Any]) -> str:
        question = body["messages"][1]["content"][0]["text"]
        captions = [json.loads(text) for text in _CAPTION.findall(question)]
        if len(captions) == 1:
            grade = random.Random(content_hash(json.dumps([self.judge.seed, captions[0]]))).randrange(11)
            return json.dumps({"reason": "simulated", "grade": grade})
        choice = self.judge.choose(captions[0], captions[1], self.first_is_better(captions[0], captions[1]))
        return json.dumps({"reason": "simulated", "better": choice})


@contextmanager
def serve_judge(server: SimulatedServer, port: int = 0) -> Iterator[SimulatedServer]:
    """Answer requests on 127.0.0.1 inside the block; `server.base` is the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= _LARGEST:
                self.send_error(413)
                return
            body = json.loads(self.rfile.read(length))
            status, content, headers = server.answer(body, self.headers.get("Authorization"))
            with suppress(ConnectionError):  # a client that waits no longer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.base = f"http://127.0.0.1:{listening.server_address[1]}/v1"
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
