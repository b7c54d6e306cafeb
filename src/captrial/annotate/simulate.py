"""Simulated annotators: they write what reference captions say, with mistakes, over the real HTTP API.

For tests, demos and planning: how long would an experiment take, and what would the ranking be if people wrote like
these references?
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from captrial.annotate import accounts
from captrial.annotate.progress_report import progress, statistics
from captrial.annotate.rounds.base import AnnotationRound, Answer
from captrial.annotate.rounds.registry import open_rounds
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings
from captrial.annotate.web.app import create_app
from captrial.errors import InputError, StateError
from captrial.web.security import CLIENT_HEADER
from captrial.web.server import run_in_thread

References = Mapping[str, Sequence[str]]


@dataclass
class SimulatedPerson:
    """A client of the API who knows reference captions and sometimes makes mistakes."""

    base: str
    token: str
    role: str
    references: References
    image_id: Callable[[int], str | None]  # from the number of an image
    generator: random.Random
    noise: float = 0.0  # share of decisions that are mistakes
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.base, headers={CLIENT_HEADER: "simulate"}, timeout=30)
        self.ask("GET", f"/join/{self.token}")
        self.ask("POST", "/api/consent", {})

    def ask(self, method: str, path: str, body: Answer | None = None) -> Answer:
        """A request that must succeed; waits where the server refuses too many requests."""
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

    def work(self, settings: AnnotationSettings) -> int:
        """Do everything there is to do for this role; returns the number of answers."""
        return sum(self._work_on(round_) for round_ in open_rounds(settings) if self.role in round_.roles)

    def _work_on(self, round_: AnnotationRound) -> int:
        done, shown = 0, self.ask("GET", f"/api/next/{round_.name}")
        while shown["item"] is not None:
            action, decision = round_.simulate(shown, self)
            key = f"{self.generator.getrandbits(128):032x}"
            try:
                taken = self.ask("POST", f"/api/{action}", {"item": shown["item"], "key": key, **decision})
                done, shown = done + 1, taken["next"] or self.ask("GET", f"/api/next/{round_.name}")
            except StateError:  # others were faster
                shown = self.ask("GET", f"/api/next/{round_.name}")
        return done

    def references_of(self, shown: Answer) -> Sequence[str]:
        """The reference captions of the image that is shown."""
        return self.references.get(self.image_id(shown["image"]) or "", ())

    def any_references(self) -> Sequence[str]:
        """The reference captions of some image."""
        return self.references[self.generator.choice(sorted(self.references))]

    def choose(self, captions: Sequence[str]) -> str:
        """One of the captions, at random."""
        return self.generator.choice(list(captions))

    def is_mistaken(self) -> bool:
        """Whether the person makes a mistake now."""
        return self.generator.random() < self.noise


def simulate_experiment(
    directory: Path | str, references: References, *, people: int = 3, noise: float = 0.05, seed: int = 0
) -> dict[str, Any]:
    """Run an experiment to its end on a server on this machine; returns the statistics of the captions.

    Writers and inspectors take turns until nothing is left: a discarded caption can reopen an image. A reopened image
    needs somebody new, so more people are invited where all have described it.
    """
    if people < 1 or not references:
        raise InputError("a simulated experiment needs at least one person and some references")
    generator = random.Random(seed)
    with serving(directory) as (base, service), ExitStack() as stack:
        settings = service.settings()

        def invite(role: str, number: int) -> SimulatedPerson:
            token = _invite(service, f"simulated {role} {number}", role)
            own, mistakes = random.Random(generator.random()), noise if role == "annotator" else 0.0
            person = SimulatedPerson(base, token, role, references, service.image_id, own, mistakes)
            stack.callback(person.http.close)
            return person

        inspectors = max(people, settings.inspectors) if settings.inspectors else 0
        team = [invite("annotator", number) for number in range(max(people, settings.writers))]
        team += [invite("inspector", number) for number in range(inspectors)]
        while True:
            work = sum(person.work(settings) for person in team)
            with service.store.read() as connection:
                left = [part.wanted - part.done for part in progress(connection, settings)]
                facts = statistics(connection, settings)
            if not any(left):
                return {"people": len(team), **facts}
            if not work:
                team.append(invite("annotator", len(team)))


@contextmanager
def serving(directory: Path | str, database: str | None = None) -> Iterator[tuple[str, AnnotationService]]:
    """Run the application on a free port of this machine; yields its address and its service."""
    app = create_app(directory, database)
    with run_in_thread(app) as address:
        yield address, app.state.context.service


def _invite(service: AnnotationService, name: str, role: str) -> str:
    """The token of a new person who needs no qualification."""
    with service.store.change() as connection:
        person, token = accounts.invite(service.store, connection, name, role)
        accounts.qualify(service.store, connection, person.id)
    return token
