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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from captrial.annotate import accounts
from captrial.annotate.overview import progress, statistics
from captrial.annotate.rounds.qualification import qualify
from captrial.annotate.service import Room
from captrial.annotate.settings import read_settings
from captrial.annotate.web.app import create_app
from captrial.errors import InputError, StateError
from captrial.web.security import CLIENT_HEADER

References = Mapping[str, Sequence[str]]
Answer = dict[str, Any]


@dataclass
class SimulatedPerson:
    """Somebody at the API who knows reference captions and is sometimes mistaken."""

    base: str
    token: str
    role: str
    references: References
    name_of: Callable[[int], str | None]  # number of an image -> its id
    generator: random.Random
    noise: float = 0.0  # share of decisions that are made without looking
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.base, headers={CLIENT_HEADER: "simulate"}, timeout=30)
        self.ask("GET", f"/join/{self.token}")
        self.ask("POST", "/api/consent", {})

    def ask(self, method: str, path: str, body: Answer | None = None) -> Answer:
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
        found: Answer = answer.json() if answer.content else {}
        return found

    def work(self, judging: bool) -> int:
        """Do everything there is to do; returns how much that was."""
        done = self._play("write", self._write) if self.role == "annotator" else self._play("inspect", self._inspect)
        return done + (self._play("judge", self._judge) if judging else 0)

    def _play(self, round_: str, decide: Callable[[Answer], tuple[str, Answer]]) -> int:
        """A round until nothing is left; `decide` says where to send what about an item."""
        done, following = 0, self.ask("GET", f"/api/next/{round_}")
        while following["item"] is not None:
            path, decision = decide(following)
            key = f"{self.generator.getrandbits(128):032x}"
            try:
                taken = self.ask("POST", path, {"item": following["item"], "key": key, **decision})
                done, following = done + 1, taken["next"] or self.ask("GET", f"/api/next/{round_}")
            except StateError:  # others were faster
                following = self.ask("GET", f"/api/next/{round_}")
        return done

    def _write(self, following: Answer) -> tuple[str, Answer]:
        """A reference of the image, or of another one by mistake; an image without one makes no sense to them."""
        known = self._known(following)
        if not known:
            return "/api/refuse", {}
        if self._is_mistaken():
            known = self.references[self.generator.choice(sorted(self.references))]
        return "/api/write", {"text": self.generator.choice(list(known))}

    def _inspect(self, following: Answer) -> tuple[str, Answer]:
        """Right if it is one of the image's references."""
        right = following["sentence"] in {" ".join(text.split()) for text in self._known(following)}
        return "/api/vote", {"right": right, "reason": "" if right else "not this image"}

    def _judge(self, following: Answer) -> tuple[str, Answer]:
        """The caption that has more words in common with the image's references."""
        left, right = (self._alike(caption, self._known(following)) for caption in following["captions"])
        if self._is_mistaken():
            left, right = right, left
        return "/api/judge", {"winner": "tie" if left == right else "left" if left > right else "right"}

    def _alike(self, caption: str, references: Sequence[str]) -> float:
        """The share of words in common with the most similar reference."""
        words = set(caption.lower().split())
        others = [set(reference.lower().split()) for reference in references]
        return max((len(words & other) / max(len(words | other), 1) for other in others), default=0.0)

    def _known(self, following: Answer) -> Sequence[str]:
        return self.references.get(self.name_of(following["image"]) or "", ())

    def _is_mistaken(self) -> bool:
        return self.generator.random() < self.noise


def simulate_experiment(
    directory: Path | str, references: References, *, crew: int = 3, noise: float = 0.05, seed: int = 0
) -> dict[str, Any]:
    """Play an experiment to its end on a server on this machine; returns what came out.

    Writers and inspectors take turns until nothing is left: a discarded sentence can reopen an image. A reopened
    image needs somebody new, so more people are invited where all have described it.
    """
    if crew < 1 or not references:
        raise InputError("a simulated experiment needs at least one person and some references")
    generator = random.Random(seed)
    with serving(directory) as (base, room), ExitStack() as stack:
        with room.store.read() as connection:
            settings = read_settings(room.store, connection)

        def invite(role: str, number: int) -> SimulatedPerson:
            token = _invite(room, f"simulated {role} {number}", role)
            own, mistakes = random.Random(generator.random()), noise if role == "annotator" else 0.0
            person = SimulatedPerson(base, token, role, references, room.image_id, own, mistakes)
            stack.callback(person.http.close)
            return person

        inspectors = max(crew, settings.inspectors) if settings.inspectors else 0
        everybody = [invite("annotator", number) for number in range(max(crew, settings.writers))]
        everybody += [invite("inspector", number) for number in range(inspectors)]
        while True:
            work = sum(person.work(judging=settings.judges > 0) for person in everybody)
            with room.store.read() as connection:
                left = [part.wanted - part.done for part in progress(connection, settings)]
                facts = statistics(connection, settings)
            if not any(left):
                return {"people": len(everybody), **facts}
            if not work:
                everybody.append(invite("annotator", len(everybody)))


@contextmanager
def serving(directory: Path | str, database: str | None = None) -> Iterator[tuple[str, Room]]:
    """The application on a free port of this machine, in a thread; yields its address and its room."""
    application = create_app(directory, database)
    with hosted(application) as address:
        yield address, application.state.context.room


@contextmanager
def hosted(application: FastAPI) -> Iterator[str]:
    """An application on a free port of this machine, in a thread; yields its address."""
    server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as door:  # ours from here on: no other program can take the port
        port = door.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([door],), daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise StateError(f"the server did not start on port {port}")
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def _invite(room: Room, name: str, role: str) -> str:
    """The token of a person who needs no qualification."""
    with room.store.change() as connection:
        person, token = accounts.invite(room.store, connection, name, role)
        qualify(room.store, connection, person.id)
    return token
