"""Simulated people for `benchmarks.speed.annotate`: each is a connection that works as a browser would."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.processes import seconds_of
from captrial.web.security import CLIENT_HEADER

THINK = 5.0  # seconds, on average
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
class LoadResult:
    """What was measured in one run."""

    people: int
    waits: list[float] = field(default_factory=list)  # seconds for an answer of the API
    images: list[float] = field(default_factory=list)
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


def random_caption() -> str:
    return " ".join(random.choices(WORDS, k=10))


class LoadClient:
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


async def run_people(
    port: int, tokens: list[tuple[str, str]], seconds: float, found: LoadResult, server: int, lead: bool
) -> None:
    end = time.perf_counter() + seconds + len(tokens) / 20
    jobs = [asyncio.create_task(_memory(server, end, found))]
    for role, token in tokens:
        if role != "lead":
            jobs.append(asyncio.create_task(_person(port, role, token, end, found)))
            await asyncio.sleep(1 / 20)  # people do not all arrive at once
        elif lead:
            jobs.append(asyncio.create_task(_lead(port, token, end)))
    begun, before = time.perf_counter(), seconds_of(server)
    found.waits.clear()  # from here on, everybody is there
    found.images.clear()
    await asyncio.gather(*jobs)
    found.processor = (seconds_of(server) - before) / (time.perf_counter() - begun)


async def _person(port: int, role: str, token: str, end: float, found: LoadResult) -> None:
    client = LoadClient(port)
    try:
        await client.open(token)
        await _work(client, role, end, found)
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        found.errors.append(repr(error))


async def _work(client: LoadClient, role: str, end: float, found: LoadResult) -> None:
    round_, path = ("write", "/api/write") if role == "annotator" else ("inspect", "/api/vote")
    following = await _timed(client, "GET", f"/api/next/{round_}", None, found)
    while following is not None and following.get("item") and time.perf_counter() < end:
        begun = time.perf_counter()
        status, _, _ = await client.ask("GET", f"/image/{following['image']}")
        found.images.append(time.perf_counter() - begun)
        if status != 200:
            found.errors.append(f"image: {status}")
        thought = random.expovariate(1 / THINK)
        if time.perf_counter() + thought > end:  # who is thinking at the end does not submit: all would at once
            return
        await asyncio.sleep(thought)
        body: Answer = {"item": following["item"], "key": f"{random.getrandbits(128):032x}"}
        body |= {"text": random_caption()} if role == "annotator" else {"right": random.random() < 0.9}
        if role == "annotator":
            await _timed(client, "PUT", "/api/draft", {"item": body["item"], "text": body["text"]}, found)
            await _timed(client, "POST", "/api/check", {"text": body["text"]}, found)
        submitted = await _timed(client, "POST", path, body, found)
        if submitted is None:  # 409: others were faster
            following = await _timed(client, "GET", f"/api/next/{round_}", None, found)
            continue
        found.acknowledged += bool(submitted.get("taken"))
        following = submitted.get("next")
    found.idle += time.perf_counter() < end


async def _timed(client: LoadClient, method: str, path: str, body: Answer | None, found: LoadResult) -> Answer | None:
    begun = time.perf_counter()
    status, _, content = await client.ask(method, path, body)
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
    client = LoadClient(port)
    await client.open(token)
    while time.perf_counter() < end:
        for _ in range(3):
            await client.ask("GET", "/api/lead/overview")
            await asyncio.sleep(5)
        await client.ask("GET", "/api/lead/ranking")


async def _memory(server: int, end: float, found: LoadResult) -> None:
    while time.perf_counter() < end:
        lines = Path(f"/proc/{server}/status").read_text().splitlines()
        found.memory.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024)
        await asyncio.sleep(1)
