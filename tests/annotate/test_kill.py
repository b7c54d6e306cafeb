"""kill -9 at random moments under load: what was acknowledged is there, nothing is there twice, the rules hold.

The long run (`pytest --full`) makes 200 kills on each database, in pieces of 25. With `CAPTRIAL_RESULTS=FILE` each
piece adds a line with its counts to that file; `python -m studies.reliability_counts FILE` makes a table of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from annotate.annotation_world import join, make_competition
from captrial.annotate.database.schema import captions, votes
from captrial.annotate.database.transactions import Store
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import read_settings
from captrial.web.security import CLIENT_HEADER

WRITERS, INSPECTORS = 6, 3  # people; an image needs three of either
KILLS = int(os.environ.get("CAPTRIAL_KILLS", "200"))  # on each database, in the long run
PATIENCE = 20_000  # naps of 10 ms, counted: a machine that is busy, or stops us, is no failure


class Server:
    """`captrial annotate serve` as a process of its own, started again after every kill."""

    def __init__(self, directory: Path, database: str | None) -> None:
        self.port = quiet_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, "-m", "captrial", "annotate", "serve", str(directory), "--port", str(self.port)]
        self.command += ["--database", database] if database else []
        self.log = directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=log)
        for _ in range(PATIENCE):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.01)
        raise AssertionError(f"the server did not start: {self.log.read_text()}")

    def end(self, how: int) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait()


def quiet_port() -> int:
    """A free port below those that the system gives to outgoing connections.

    Otherwise a client that tries to reach the dead server may be given the server's port, and reach itself.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(max(1024, low - 15_000), low)))
            return int(free.getsockname()[1])


class Client(threading.Thread):
    """Somebody who works as fast as the server answers, and sends again what was not acknowledged."""

    def __init__(self, base: str, token: str, number: int, round_: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.base, self.token, self.number, self.round, self.stop = base, token, number, round_, stop
        self.acknowledged: list[dict[str, Any]] = []
        self.again = 0
        self.trouble: str | None = None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self.base, headers={CLIENT_HEADER: "test"}, timeout=300) as self.http:
                self.ask("GET", f"/join/{self.token}", None)
                while not self.stop.is_set():
                    self.work()
        except Exception as error:
            self.trouble = repr(error)

    def work(self) -> None:
        following = self.ask("GET", f"/api/next/{self.round}", None)
        if following is None or following.json()["item"] is None:
            self.stop.wait(0.1)
            return
        item = following.json()["item"]
        body: dict[str, Any] = {"item": item, "key": f"{random.getrandbits(128):032x}"}
        if self.round == "write":
            body["text"] = f"caption of client {self.number} about image {item} in attempt {body['key']}"
            path = "/api/write"
        else:
            body["right"], path = True, "/api/vote"
        if self.ask("POST", path, body) is not None:
            self.acknowledged.append(body)

    def ask(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response | None:
        """The answer, however often the server dies meanwhile; None where the request was refused or we stop."""
        tried = 0
        while not self.stop.is_set():
            try:
                answer = self.http.request(method, path, json=body)
            except httpx.TransportError:
                tried += 1
                time.sleep(0.05)
                continue
            if answer.status_code == 429:
                time.sleep(0.2)
                continue
            assert answer.status_code in (200, 303, 409), answer.text
            self.again += bool(tried and body)
            return answer if answer.status_code != 409 else None
        return None


def kill_often(folder: Path, database: str | None, kills: int, images: int, seed: int = 0) -> None:
    """Kill the server so often, and check what it stored."""
    directory = make_competition(folder, k=images // 2, reserve=0, images=images)
    service = AnnotationService(directory, Store.in_directory(directory, database))
    tokens = [join(service, f"writer {number}", "annotator")[1] for number in range(WRITERS)]
    tokens += [join(service, f"inspector {number}", "inspector")[1] for number in range(INSPECTORS)]
    service.close()
    server, stop, generator = Server(directory, database), threading.Event(), random.Random(seed)
    server.start()
    rounds = ["write"] * WRITERS + ["inspect"] * INSPECTORS
    clients = [
        Client(server.base, token, number, round_, stop)
        for number, (token, round_) in enumerate(zip(tokens, rounds, strict=True))
    ]
    for client in clients:
        client.start()
    try:
        for _ in range(kills):
            wait_for_progress(clients)
            time.sleep(generator.uniform(0, 0.5))
            server.end(signal.SIGKILL)
            server.start()
        wait_for_progress(clients)
    finally:
        stop.set()
        for client in clients:
            client.join()
        server.end(signal.SIGTERM)
    assert not [client.trouble for client in clients if client.trouble]
    assert kills < 20 or any(client.again for client in clients), "no submission had to be sent again: kill more often"
    lost, twice = check(AnnotationService(directory, Store.in_directory(directory, database)), clients)
    if os.environ.get("CAPTRIAL_RESULTS"):
        counts = {
            "database": "postgresql" if database else "sqlite",
            "kills": kills,
            "acknowledged": sum(len(client.acknowledged) for client in clients),
            "sent_again": sum(client.again for client in clients),
            "lost": lost,
            "twice": twice,
        }
        with Path(os.environ["CAPTRIAL_RESULTS"]).open("a") as stream:
            stream.write(json.dumps(counts) + "\n")


def wait_for_progress(clients: list[Client]) -> None:
    """Until some more submissions are acknowledged."""

    def acknowledged() -> int:
        return sum(len(client.acknowledged) for client in clients)

    before = acknowledged()
    for _ in range(PATIENCE):
        if acknowledged() > before + 5:
            return
        time.sleep(0.01)
    raise AssertionError("nothing is acknowledged any more")


def check(service: AnnotationService, clients: list[Client]) -> tuple[int, int]:
    """Check what is stored; returns how many acknowledged answers are lost, and how many are there twice."""
    with service.store.read() as connection:
        settings = read_settings(service.store, connection)
        written = connection.execute(select(captions)).all()
        cast = connection.execute(select(votes)).all()
    service.close()
    texts = Counter(row.text for row in written)
    acknowledged = [body["text"] for client in clients for body in client.acknowledged if "text" in body]
    assert acknowledged
    twice = sum(count - 1 for count in texts.values())
    assert not twice, "a caption is there twice"
    voted = {(row.caption, row.person) for row in cast}
    expected = [body["item"] for client in clients for body in client.acknowledged if "right" in body]
    missing = (Counter(expected) - Counter(caption for caption, _ in voted)).total()
    missing += sum(text not in texts for text in acknowledged)
    assert not missing, "an acknowledged answer is lost"
    assert len({(row.image, row.person) for row in written}) == len(written), "somebody described an image twice"
    assert max(Counter(row.image for row in written).values()) <= settings.writers, "exact overlap"
    assert max(Counter(caption for caption, _ in voted).values(), default=0) <= settings.inspectors
    lost = len(written) - len(acknowledged)
    assert 0 <= lost <= WRITERS, "at the end a client may stop before it hears of its last caption, no more"
    return missing, twice


@pytest.mark.slow
def test_a_kill_on_sqlite(tmp_path: Path) -> None:
    kill_often(tmp_path, None, kills=1, images=500)


@pytest.mark.slow
@pytest.mark.needs("postgres")
def test_a_kill_on_postgresql(tmp_path: Path, postgres: str) -> None:
    kill_often(tmp_path, postgres, kills=1, images=500)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("piece", range(KILLS // 25))
def test_many_kills_on_sqlite(tmp_path: Path, piece: int) -> None:
    kill_often(tmp_path, None, kills=25, images=2000, seed=piece)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.needs("postgres")
@pytest.mark.parametrize("piece", range(KILLS // 25))
def test_many_kills_on_postgresql(tmp_path: Path, postgres: str, piece: int) -> None:
    kill_often(tmp_path, postgres, kills=25, images=2000, seed=piece)
