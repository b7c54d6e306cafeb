"""Jobs for tests: quick, and bad in ways that can be counted; images and a server for them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from PIL import Image

from captrial.data.public_network import ALLOW_PRIVATE
from captrial.engines.job import Job, Row
from captrial.errors import CaptrialError, InputError


class Shout(Job):
    """Upper-cases `item`; rows named `bad...` fail, and with them every batch they are in."""

    schema: ClassVar[pa.Schema] = pa.schema([("loud", pa.string())])

    def __init__(
        self,
        log: str = "",
        died: str = "",
        deadly: str = "",
        gate: str = "",
        held: Sequence[str] = (),
        weight: str = "",
    ) -> None:
        self.log, self.died, self.deadly = log, died, deadly
        self.gate, self.held = gate, held  # rows that wait until there is a file of that name

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        for row in rows:
            self._live_or_die(row["id"])
            while row["id"] in self.held and not Path(self.gate).exists():
                time.sleep(0.02)
            if row["id"].startswith("bad"):
                raise InputError(f"{row['id']} is bad")
            if row["id"].startswith("gone"):
                raise CaptrialError("the endpoint is gone")
        return [{"loud": row["item"].upper()} for row in rows]

    def _live_or_die(self, name: str) -> None:
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{name} {os.getpid()}\n")
        if name == self.deadly and (not self.died or not Path(self.died).exists()):
            if self.died:
                Path(self.died).touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Odd(Shout):
    """Answers half an emoji to one row, and no text to another."""

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        odd = {"row1": "\ud83d", "row2": 5}
        return [{"loud": odd.get(row["id"], row["item"].upper())} for row in rows]


class Unloadable(Shout):
    """Cannot even be loaded."""

    def __init__(self) -> None:
        raise InputError("no such model: nonsense")


class DeadlyToRead:
    """Kills the process that unpickles it: the first one, or all of them where no file is named."""

    def __init__(self, died: str = "") -> None:
        self.died = died

    def __reduce__(self) -> tuple[Callable[[str], DeadlyToRead], tuple[str]]:
        return _die_reading, (self.died,)


def _die_reading(died: str) -> DeadlyToRead:
    if not died or not Path(died).exists():
        if died:
            Path(died).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return DeadlyToRead(died)


class Unreadable:
    """Cannot be unpickled, as a job whose module is not installed where the worker is."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _fail_reading, ()


def _fail_reading() -> None:
    raise OSError("no such plugin")


class Counted(Shout):
    """Counts batches made ready and batches done, in this process."""

    ahead: ClassVar[list[int]] = []  # how many were ready or at work as each was made ready
    ready: ClassVar[int] = 0
    done: ClassVar[int] = 0

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        Counted.ready += bool(rows)
        Counted.ahead.append(Counted.ready - Counted.done)
        return rows

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        time.sleep(0.01)  # time enough for whoever would run ahead
        answers = super().__call__(rows)
        Counted.done += 1
        return answers


def longer(first: Sequence[str], second: Sequence[str]) -> list[float]:
    """A similarity of one's own: captions of like length are alike."""
    return [-abs(len(one) - len(other)) / 100 for one, other in zip(first, second, strict=True)]


def write_images(folder: Path, widths: Iterable[int]) -> Path:
    """A folder with a red image of each width, named after it, and a broken one."""
    folder.mkdir()
    for width in widths:
        Image.new("RGB", (width, 5), "red").save(folder / f"{width}.png")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return folder


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server that answers by this handler; closing it waits for requests that are still answered."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(ALLOW_PRIVATE, "1")
            yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
