"""Simulated annotators: they write what reference captions say, with mistakes, over the real HTTP API.

For tests, demos and planning: how long would an experiment take, and what would the ranking be if people wrote like
these references? They always work on a copy of the competition: what people did is never touched.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from captrial.annotate import accounts
from captrial.annotate.competition_sync import check_database, require_selection
from captrial.annotate.database.transactions import DATABASE, Store
from captrial.annotate.progress_report import progress, statistics
from captrial.annotate.rounds.base import AnnotationRound, Answer
from captrial.annotate.rounds.registry import open_rounds
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings
from captrial.annotate.web.app import create_app
from captrial.compete.competition import Competition
from captrial.compete.storage.labels import JUDGEMENTS, MARKS, REFERENCES
from captrial.compete.storage.manifest import MANIFEST
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


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Who takes part in a simulated experiment."""

    people: int = 3  # annotators; as many inspectors are added
    noise: float = 0.05  # share of captions that are about another image
    seed: int = 0
    extra_people: int = 20  # at most so many annotators more, for images that are opened again


def simulate_experiment(
    directory: Path | str,
    references: References,
    settings: SimulationSettings | None = None,
    *,
    out: Path | str | None = None,
) -> dict[str, Any]:
    """Run an experiment to its end on a copy of the competition; returns statistics of the captions, and the ranking.

    Settings and annotations of the competition's own SQLite database are copied, too, so the experiment goes on from
    where people are; nothing of the competition itself changes. The copy is kept as `out`, if one is given.

    Writers and inspectors take turns until nothing is left: a discarded caption can reopen an image. A reopened image
    needs somebody new, so more people are invited where all have described it, up to a bound; `unfinished` counts the
    answers that are missing then.
    """
    chosen = settings or SimulationSettings()
    if chosen.people < 1 or not references:
        raise InputError("a simulated experiment needs at least one person and some references")
    with _copy(Path(directory), None if out is None else Path(out)) as copy:
        found = _run(copy, references, chosen)
        competition = Competition.open(copy)
        if competition.scorer().images:
            return {**found, "ranking": competition.rank().rows()}
        judged = competition.judgements()
        return {**found, "ranking": competition.rank_preferences(judged).rows() if judged else []}


def _run(directory: Path, references: References, chosen: SimulationSettings) -> dict[str, Any]:
    generator = random.Random(chosen.seed)
    with serving(directory) as (base, service), ExitStack() as stack:
        settings = service.settings()

        def invite(role: str, number: int) -> SimulatedPerson:
            token = _invite(service, f"simulated {role} {number}", role)
            own, mistakes = random.Random(generator.random()), chosen.noise if role == "annotator" else 0.0
            person = SimulatedPerson(base, token, role, references, service.image_id, own, mistakes)
            stack.callback(person.http.close)
            return person

        inspectors = max(chosen.people, settings.inspectors) if settings.inspectors else 0
        team = [invite("annotator", number) for number in range(max(chosen.people, settings.writers))]
        team += [invite("inspector", number) for number in range(inspectors)]
        most = len(team) + chosen.extra_people
        while True:
            work = sum(person.work(settings) for person in team)
            with service.store.read() as connection:
                left = sum(part.wanted - part.done for part in progress(connection, settings))
                facts = statistics(connection, settings)
            if not left or (not work and len(team) == most):
                return {"people": len(team), "unfinished": left, **facts}
            if not work:
                team.append(invite("annotator", len(team)))


@contextmanager
def _copy(directory: Path, out: Path | None) -> Iterator[Path]:
    """A copy of a competition and of its annotations; files that never change are links."""
    require_selection(Competition.open(directory))
    if out is not None and out.exists():
        raise InputError(f"{out}: exists; choose a new folder for the copy")
    with tempfile.TemporaryDirectory(prefix="captrial-simulation-") as temporary:
        copy = Path(temporary, "competition")
        shutil.copytree(directory / "selection", copy / "selection")
        kept = [MANIFEST, *(name for name in (REFERENCES, JUDGEMENTS, MARKS) if (directory / name).is_file())]
        for name in kept:
            shutil.copyfile(directory / name, copy / name)
        for name in ("pool.parquet", "captions"):
            (copy / name).symlink_to((directory / name).resolve())
        if (directory / DATABASE).is_file():
            with closing(Store.in_directory(directory, read_only=True)) as store:
                check_database(store, Competition.open(directory))
                store.copy_to(copy / DATABASE)
        yield copy
        if out is not None:  # follows the links
            shutil.copytree(copy, out)


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
