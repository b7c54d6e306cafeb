"""Simulated people: they write what reference captions say, with noise, over the real HTTP API.

For tests, demos and planning: how long would an experiment take, and what would the ranking be if people wrote like
these references?
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from captrial.annotate import people
from captrial.annotate.app import create_app
from captrial.annotate.overview import progress, statistics
from captrial.annotate.qualification import qualify
from captrial.annotate.room import Room
from captrial.annotate.security import CLIENT_HEADER
from captrial.annotate.settings import read_settings
from captrial.errors import InputError, StateError

References = Mapping[str, Sequence[str]]


@dataclass
class Client:
    """One simulated person at the API."""

    base: str
    token: str
    generator: random.Random
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.base, headers={CLIENT_HEADER: "simulate"}, timeout=30)
        self.ask("GET", f"/join/{self.token}")
        self.ask("POST", "/api/consent", {})

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request that must succeed; waits where the server says it is asked too often."""
        for _ in range(20):
            answer = self.http.request(method, path, json=body)
            if answer.status_code != 429:
                break
            time.sleep(1)
        if answer.status_code == 409:
            raise StateError(answer.json()["detail"])
        if answer.is_error:
            raise InputError(f"{method} {path.partition('/join')[1] or path}: {answer.status_code} {answer.text[:200]}")
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def key(self) -> str:
        """A new idempotency key."""
        return f"{self.generator.getrandbits(128):032x}"


@dataclass
class Annotator(Client):
    """Writes a reference of the picture; sometimes one of another picture, by mistake."""

    references: References = field(default_factory=dict)
    name_of: Callable[[int], str | None] = lambda _: None  # number of a picture -> its id
    noise: float = 0.0

    def work(self) -> int:
        """Describe pictures until none is left; returns how many."""
        done = 0
        following = self.ask("GET", "/api/next/write")
        while following["item"] is not None:
            item = following["item"]
            text = self._sentence(self.name_of(item) or "")
            try:
                if text is None:
                    answer = self.ask("POST", "/api/refuse", {"item": item, "key": self.key()})
                else:
                    answer = self.ask("POST", "/api/write", {"item": item, "text": text, "key": self.key()})
                following, done = answer["next"], done + 1
            except StateError:
                following = self.ask("GET", "/api/next/write")
        return done

    def _sentence(self, picture: str) -> str | None:
        known = self.references.get(picture)
        if not known:
            return None  # somebody who cannot make sense of the picture
        if self.generator.random() < self.noise:
            picture = self.generator.choice(sorted(self.references))
        return self.generator.choice(list(self.references[picture]))


@dataclass
class Inspector(Client):
    """Calls a sentence right if it is one of the picture's references."""

    references: References = field(default_factory=dict)
    name_of: Callable[[int], str | None] = lambda _: None

    def work(self) -> int:
        """Inspect sentences until none is left; returns how many."""
        done = 0
        following = self.ask("GET", "/api/next/inspect")
        while following["item"] is not None:
            known = {
                " ".join(text.split()) for text in self.references.get(self.name_of(following["picture"]) or "", ())
            }
            right = following["sentence"] in known
            body = {"item": following["item"], "right": right, "reason": "" if right else "not this picture"}
            try:
                following = self.ask("POST", "/api/vote", {**body, "key": self.key()})["next"]
                done += 1
            except StateError:
                following = self.ask("GET", "/api/next/inspect")
        return done


def simulate_experiment(
    directory: Path | str, references: References, *, crew: int = 3, noise: float = 0.05, seed: int = 0
) -> dict[str, Any]:
    """Play an experiment to its end on a server on this machine; returns what came out.

    Writers and inspectors take turns until nothing is left: a discarded sentence can reopen a picture. A reopened
    picture needs somebody new, so more people are invited where all have described it.
    """
    if crew < 1 or not references:
        raise InputError("a simulated experiment needs at least one person and some references")
    generator = random.Random(seed)
    with serving(directory) as (base, room):
        with room.store.read() as connection:
            settings = read_settings(room.store, connection)

        def annotator(number: int) -> Annotator:
            who = _invite(room, base, f"simulated annotator {number}", "annotator", generator)
            return Annotator(*who, references, room.picture_id, noise)

        def inspector(number: int) -> Inspector:
            who = _invite(room, base, f"simulated inspector {number}", "inspector", generator)
            return Inspector(*who, references, room.picture_id)

        writers = [annotator(number) for number in range(max(crew, settings.writers))]
        inspectors = [
            inspector(number) for number in range(max(crew, settings.inspectors) if settings.inspectors else 0)
        ]
        try:
            while True:
                work = sum(writer.work() for writer in writers) + sum(checker.work() for checker in inspectors)
                with room.store.read() as connection:
                    left = [part.wanted - part.done for part in progress(connection, settings)]
                    facts = statistics(connection, settings)
                if not any(left):
                    return {"people": len(writers) + len(inspectors), **facts}
                if not work:
                    writers.append(annotator(len(writers)))
        finally:
            for person in (*writers, *inspectors):
                person.http.close()


@contextmanager
def serving(directory: Path | str, database: str | None = None) -> Iterator[tuple[str, Room]]:
    """The application on a free port of this machine, in a thread; yields its address and its room."""
    application = create_app(directory, database)
    room: Room = application.state.context.room
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise StateError(f"the server did not start on port {port}")
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}", room
    finally:
        server.should_exit = True
        thread.join()


def _invite(room: Room, base: str, name: str, role: str, generator: random.Random) -> tuple[str, str, random.Random]:
    """A person who needs no qualification: address, token, and their own randomness."""
    with room.store.change() as connection:
        person, token = people.invite(room.store, connection, name, role)
        qualify(room.store, connection, person.id)
    return base, token, random.Random(generator.random())
