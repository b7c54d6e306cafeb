"""Load on the annotation server, from a second process: `python -m benchmarks.annotate [--people 200] [--seconds 60]`.

People think for a while (exponential, mean 5 s), then submit a sentence, or a vote, and fetch the next picture. What is
measured: how long they wait for an answer, errors, acknowledged submissions that are not in the database, and the
server's memory. `--people 200 400 800` shows where it bends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from PIL import Image
from sqlalchemy import func, select

from benchmarks.measuring import Row, compare
from captrial.annotate import people as accounts
from captrial.annotate.qualification import qualify
from captrial.annotate.room import Room
from captrial.annotate.schema import sentences, votes
from captrial.annotate.security import CLIENT_HEADER
from captrial.annotate.serving import PictureServer
from captrial.annotate.store import Store
from captrial.compete.competition import Competition
from captrial.compete.state import SelectionSettings

PICTURES, K, FILES = 4000, 70, 64  # 9 models: 36 pairs of 70 pictures, as 002; FILES different pictures
MODELS = 9
THINK = 5.0
INSPECTING = 0.3  # share of people who inspect
DESCRIBED = 400  # pictures of about 1640 that are described before the run, so that there is something to inspect
Answer = dict[str, Any]
WORDS = (
    "a",
    "brown",
    "horse",
    "dog",
    "child",
    "stands",
    "runs",
    "near",
    "tall",
    "tree",
    "green",
    "field",
    "old",
    "road",
)


@dataclass
class Outcome:
    """What happened in one run."""

    people: int
    waits: list[float] = field(default_factory=list)  # seconds for an answer of the API
    pictures: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    idle: int = 0  # people for whom nothing was left before the end
    acknowledged: int = 0
    stored: int = 0
    memory: list[float] = field(default_factory=list)  # MiB, every second
    processor: float = 0.0  # share of one core that the server used
    load: float = 0.0  # the machine's load average at the end
    startup: float = 0.0

    def quantile(self, share: float) -> float:
        """Milliseconds."""
        return 1000 * float(np.quantile(self.waits, share)) if self.waits else float("nan")


def run(people: int = 200, seconds: float = 20) -> list[Row]:
    """Rows for the table of all benchmarks; there is no other program to compare with, so the goal stands there."""
    with tempfile.TemporaryDirectory() as folder:
        found = trial(prepare_world(Path(folder) / "world"), people, seconds)
    return [
        _row(f"p50 of {people} people", found.quantile(0.5), 100, "ms"),
        _row(f"p99 of {people} people", found.quantile(0.99), 100, "ms"),
        _row("errors", len(found.errors), 0, ""),
        _row("acknowledged submissions lost", found.acknowledged - found.stored, 0, ""),
        _row("growth of memory", found.memory[-1] - found.memory[len(found.memory) // 2], 20, "MiB"),
    ]


def _row(what: str, ours: float, goal: float, unit: str) -> Row:
    return compare(f"annotation server: {what}", "the goal", ours, goal, unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="*", default=[200], help="one run for each number")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own instead of SQLite")
    parser.add_argument("--lead", action="store_true", help="a lead watches the live page meanwhile")
    parser.add_argument("--world", type=Path, help="keep the competition in this folder, and find it there again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = prepare_world(arguments.world or Path(folder) / "world")
        for people in arguments.people:
            with database() if arguments.postgres else nullcontext() as url:
                show(trial(world, people, arguments.seconds, url, arguments.lead))


@contextmanager
def database() -> Iterator[str]:
    """The URL of an empty database of a PostgreSQL server that syncs what it commits."""
    from tests.annotate.database import create_database, postgres_server

    with postgres_server(durable=True) as address:
        yield create_database(address, "benchmark")


def show(found: Outcome) -> None:
    pictures = 1000 * float(np.quantile(found.pictures, 0.99)) if found.pictures else float("nan")
    half = found.memory[len(found.memory) // 2]
    print(
        f"{found.people} people: p50 {found.quantile(0.5):.1f} ms, p99 {found.quantile(0.99):.1f} ms, "
        f"pictures p99 {pictures:.1f} ms, {len(found.waits)} answers, {len(found.errors)} errors, "
        f"{found.acknowledged} acknowledged, {found.stored} stored, memory {half:.0f} -> {found.memory[-1]:.0f} MiB, "
        f"server {100 * found.processor:.0f}% of a core, started in {found.startup:.1f} s, "
        f"load average {found.load:.1f}"
    )
    if found.idle:
        print(f"  {found.idle} people had nothing left to do before the end: the load was lower than it should be")
    for error in sorted(set(found.errors))[:5]:
        print("  error:", error)


def trial(world: Path, people: int, seconds: float, database: str | None = None, lead: bool = False) -> Outcome:
    """One run on a fresh copy of the competition."""
    with tempfile.TemporaryDirectory(dir=world) as folder:
        directory = Path(shutil.copytree(world / "competition", Path(folder) / "competition", copy_function=os.link))
        tokens = invite(directory, database, people)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "captrial", "annotate", "serve", str(directory), "--port", str(port)]
        begun = time.perf_counter()
        server = subprocess.Popen(
            [*command, *(["--database", database] if database else [])], stdout=subprocess.DEVNULL
        )
        try:
            _wait(port)
            found = Outcome(people, startup=time.perf_counter() - begun)
            asyncio.run(_everybody(port, tokens, seconds, found, server.pid, lead))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        found.stored = _count(Store.in_directory(directory, database))
        found.load = os.getloadavg()[0]
    return found


def prepare_world(folder: Path) -> Path:
    """A folder with the competition and its encoded pictures: a server that has been up for minutes has those."""
    if not (folder / "ready").exists():
        folder.mkdir(parents=True)
        competition = make_competition(folder)
        pictures = PictureServer(competition.directory / "served", competition.pictures)
        pictures.prepare(competition.images(), threading.Event(), rest=0)
        (folder / "ready").touch()
    return folder


def make_competition(folder: Path) -> Competition:
    """Nine made-up models; pictures of noise, which are as large as photographs of that size can be."""
    images, generator, files = folder / "images", np.random.default_rng(0), {}
    images.mkdir()
    for number in range(FILES):
        coarse = Image.fromarray(generator.integers(0, 255, (48, 64, 3), dtype=np.uint8))
        coarse.resize((1024, 768), Image.Resampling.BICUBIC).save(images / f"{number}.jpg", quality=90)
    for number in range(FILES, PICTURES):
        (images / f"{number}.jpg").hardlink_to(images / f"{number % FILES}.jpg")
    for model in range(MODELS):
        said = generator.choice(WORDS, (PICTURES, 10))
        records = [{"image_id": f"{number}.jpg", "caption": " ".join(words)} for number, words in enumerate(said)]
        files[f"model{model}"] = folder / f"{model}.json"
        files[f"model{model}"].write_bytes(orjson.dumps(records))
    competition = Competition.create(folder / "competition", files, images=images)
    competition.select(SelectionSettings(K, K))
    return competition


def invite(directory: Path, database: str | None, people: int) -> list[tuple[str, str]]:
    """(role, token) of everybody; some of the writing is done already."""
    room = Room(directory, Store.in_directory(directory, database))
    tokens = []
    with room.store.change() as connection:
        for number in range(people + 4):
            role = "lead" if number == 0 else "inspector" if number % 10 < 10 * INSPECTING else "annotator"
            person, token = accounts.invite(room.store, connection, f"person {number}", role)
            accounts.consent(room.store, connection, person.id)
            qualify(room.store, connection, person.id)
            tokens.append((role, token, person.id))
        early = [person for _, _, person in tokens[-3:]]
        for picture in range(1, DESCRIBED + 1):
            rows = [{"picture": picture, "person": person, "text": _sentence(), "state": "live"} for person in early]
            connection.execute(
                sentences.insert(), [{**row, "hints": "", "created": 0.0, "seconds": 9.0} for row in rows]
            )
    room.close()
    return [(role, token) for role, token, _ in tokens[: people + 1]]


def _sentence() -> str:
    return " ".join(random.choices(WORDS, k=10))


def _wait(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)


class Browser:
    """One person's connection, with as little work as possible: the client must not be what is measured."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie = port, ""

    async def open(self, token: str) -> None:
        """Connect, and sign in by the invitation link."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        _, head, _ = await self.ask("GET", f"/join/{token}")
        self.cookie = head.partition("set-cookie: ")[2].partition(";")[0]

    async def ask(self, method: str, path: str, body: Answer | None = None) -> tuple[int, str, bytes]:
        """Status, headers and content of an answer."""
        content = b"" if body is None else orjson.dumps(body)
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Cookie: {self.cookie}",
            f"{CLIENT_HEADER}: benchmark",
        ]
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
        self.writer.write("\r\n".join(lines).encode() + content)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()  # uvicorn writes names in lower case
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return int(head[9:12]), head, await self.reader.readexactly(length)


async def _everybody(
    port: int, tokens: list[tuple[str, str]], seconds: float, found: Outcome, server: int, lead: bool
) -> None:
    end = time.perf_counter() + seconds + len(tokens) / 20
    jobs = [asyncio.create_task(_memory(server, end, found))]
    for role, token in tokens:
        if role != "lead":
            jobs.append(asyncio.create_task(_person(port, role, token, end, found)))
            await asyncio.sleep(1 / 20)  # people do not all arrive at once
        elif lead:
            jobs.append(asyncio.create_task(_lead(port, token, end)))
    begun, before = time.perf_counter(), _processor(server)
    found.waits.clear()  # from here on, everybody is there
    found.pictures.clear()
    await asyncio.gather(*jobs)
    found.processor = (_processor(server) - before) / (time.perf_counter() - begun)


async def _person(port: int, role: str, token: str, end: float, found: Outcome) -> None:
    browser = Browser(port)
    try:
        await browser.open(token)
        await _work(browser, role, end, found)
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        found.errors.append(repr(error))


async def _work(browser: Browser, role: str, end: float, found: Outcome) -> None:
    round_, path = ("write", "/api/write") if role == "annotator" else ("inspect", "/api/vote")
    following = await _timed(browser, "GET", f"/api/next/{round_}", None, found)
    while following is not None and following.get("item") and time.perf_counter() < end:
        begun = time.perf_counter()
        status, _, _ = await browser.ask("GET", f"/picture/{following['picture']}")
        found.pictures.append(time.perf_counter() - begun)
        if status != 200:
            found.errors.append(f"picture: {status}")
        thought = random.expovariate(1 / THINK)
        if time.perf_counter() + thought > end:  # who is thinking at the end does not submit: all would at once
            return
        await asyncio.sleep(thought)
        body: Answer = {"item": following["item"], "key": f"{random.getrandbits(128):032x}"}
        body |= {"text": _sentence()} if role == "annotator" else {"right": random.random() < 0.9}
        if role == "annotator":
            await _timed(browser, "PUT", "/api/draft", {"item": body["item"], "text": body["text"]}, found)
            await _timed(browser, "POST", "/api/check", {"text": body["text"]}, found)
        submitted = await _timed(browser, "POST", path, body, found)
        if submitted is None:  # 409: others were faster
            following = await _timed(browser, "GET", f"/api/next/{round_}", None, found)
            continue
        found.acknowledged += bool(submitted.get("taken"))
        following = submitted.get("next")
    found.idle += time.perf_counter() < end


async def _timed(browser: Browser, method: str, path: str, body: Answer | None, found: Outcome) -> Answer | None:
    begun = time.perf_counter()
    status, _, content = await browser.ask(method, path, body)
    found.waits.append(time.perf_counter() - begun)
    if status == 409:
        return None
    if status != 200:
        found.errors.append(f"{path}: {status} {content[:100].decode()}")
        return {}
    answer: Answer = orjson.loads(content)
    return answer


async def _lead(port: int, token: str, end: float) -> None:
    """What the lead's page asks for, as often as it does."""
    browser = Browser(port)
    await browser.open(token)
    while time.perf_counter() < end:
        for _ in range(3):
            await browser.ask("GET", "/api/lead/overview")
            await asyncio.sleep(5)
        await browser.ask("GET", "/api/lead/ranking")


async def _memory(server: int, end: float, found: Outcome) -> None:
    while time.perf_counter() < end:
        lines = Path(f"/proc/{server}/status").read_text().splitlines()
        found.memory.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024)
        await asyncio.sleep(1)


def _processor(server: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _count(store: Store) -> int:
    """Submissions in the database, those made while preparing aside."""
    with store.read() as connection:
        written = select(func.count()).select_from(sentences).where(sentences.c.created > 0)
        cast = select(func.count()).select_from(votes)
        total = connection.execute(written).scalar_one() + connection.execute(cast).scalar_one()
    store.close()
    return int(total)


if __name__ == "__main__":
    main()
