"""An endpoint that answers as no endpoint should: huge, compressed, malformed, endless or very slow answers.

`ANSWERS` has what it sends; each must end in a result or in an error of the one question, in bounded time.
"""

from __future__ import annotations

import gzip
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

VERDICT = '{"reason": "x", "better": "first"}'
USAGES: dict[str, object] = {
    "list": [1],
    "text": "many",
    "negative": {"prompt_tokens": -5, "completion_tokens": -(10**30)},
    "float": {"prompt_tokens": 1.5, "completion_tokens": "3"},
    "infinite": {"prompt_tokens": float("inf"), "completion_tokens": float("nan")},
    "huge": {"prompt_tokens": 10**30, "completion_tokens": True},
}


def http(body: bytes, head: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def said(content: object, **more: object) -> bytes:
    return http(json.dumps({"choices": [{"message": {"content": content}}], **more}).encode())


def slowly(start: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    """Sends a piece every 0.2 s for 20 s: no read takes long, the answer never ends."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        for _ in range(100):
            connection.sendall(piece)
            time.sleep(0.2)

    return send


def without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(300):
        connection.sendall(b"a" * (1 << 20))


def headers_without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        connection.sendall(b"X-%d: %s\r\n" % (number, b"a" * 4000))


ANSWERS: dict[str, bytes | Callable[[socket.socket], None]] = {
    **{f"usage {name}": said(VERDICT, usage=usage) for name, usage in USAGES.items()},
    "half a character": said("\ud800 first"),
    "half a character in the model's name": said(VERDICT, model="\ud800"),
    "half a character in a refusal": http(b'{"choices": [{"message": {"content": null, "refusal": "\\ud800"}}]}'),
    "escape sequences": said("\x1b[2J\x1b]0;title\x07 first", model="\x1b[2J"),
    "a model that is not text": said(VERDICT, model={"a": [1] * 1000}),
    "long text": said("x" * 900_000),
    "long number": http(b'{"choices": ' + b"9" * 10_000 + b"}"),
    "nested": http(b"[" * 200_000),
    "nested in the text": said('{"a":' * 3000 + "}"),
    "parts": http(b'{"choices": [{"message": {"content": [{"type": "text", "text": "a"}]}}]}'),
    "choices of another type": http(b'{"choices": {"0": 1}}'),
    "gzip bomb": http(gzip.compress(b" " * (100 << 20)), "Content-Encoding: gzip\r\n"),
    "damaged gzip": http(b"abc", "Content-Encoding: gzip\r\n"),
    "unknown encoding": http(b"abc", "Content-Encoding: br\r\n"),
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
    "no HTTP": b"SSH-2.0\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "damaged chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "no content": b"HTTP/1.1 204 x\r\n\r\n",
    "unknown status": b"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "sent elsewhere": b"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "without end": without_end,
    "headers without end": headers_without_end,
    "slow body": slowly(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
    "slow header": slowly(b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "early hints": slowly(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
}


@contextmanager
def hostile_endpoint(answer: bytes | Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server on this machine that sends this answer to every request."""

    class Handler(socketserver.StreamRequestHandler):
        timeout = 20

        def handle(self) -> None:
            with suppress(OSError):
                length = 0
                while (line := self.rfile.readline().strip()) != b"":
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                self.rfile.read(length)
                answer(self.connection) if callable(answer) else self.connection.sendall(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, block_on_close = True, False

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
