"""The invariants of task assignment (`captrial.annotate.rounds.assignment`), as a state machine over the service."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from sqlalchemy import Connection, select

from annotate.annotation_world import (
    CAPTION,
    Clock,
    join,
    make_competition,
    new_key,
    submit_caption,
    submit_refusal,
    submit_vote,
)
from captrial.annotate import accounts
from captrial.annotate.accounts import Person
from captrial.annotate.database.schema import captions, images, leases, refusals, votes
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.base import statement_values
from captrial.annotate.rounds.registry import ROUNDS
from captrial.annotate.rounds.write import WRITTEN
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, read_settings, write_settings
from captrial.errors import StateError

WRITERS, INSPECTORS = 2, 2
_folders = ExitStack()


@cache
def _made() -> Path:
    """A competition, made once for all examples."""
    return make_competition(Path(_folders.enter_context(tempfile.TemporaryDirectory())), k=2, reserve=2)


def teardown_module() -> None:
    _folders.close()


@dataclass
class ImageState:
    """What was done about an image."""

    written: int = 0  # captions, discarded ones included
    live: int = 0
    people: set[int] = field(default_factory=set)  # who wrote or refused

    def missing(self, settings: AnnotationSettings) -> int:
        """How many more people are needed to describe it."""
        first = settings.writers - self.written
        return first if first > 0 else max(0, settings.min_captions - self.live)


def image_states(connection: Connection) -> dict[int, ImageState]:
    """The state of every active image."""
    active = select(images.c.id).where(images.c.active, ~images.c.qualification)
    states = {number: ImageState() for number in connection.execute(active).scalars()}
    for row in connection.execute(select(captions.c.image, captions.c.person, captions.c.state)):
        if row.image in states:
            state = states[row.image]
            state.written += row.state in WRITTEN
            state.live += row.state == "live"
            state.people.add(row.person)
    for image, person in connection.execute(select(refusals.c.image, refusals.c.person)):
        if image in states:
            states[image].people.add(person)
    return states


class AnnotationMachine(RuleBasedStateMachine):
    """People come, take items, submit, refuse, vote, undo, wait; nothing may break the rules."""

    people = Bundle("people")
    held = Bundle("held")

    @initialize()
    def open_service(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        directory = Path(shutil.copytree(_made(), Path(self.folder.name) / "competition"))
        self.clock = Clock()
        self.service = AnnotationService(directory, Store(f"sqlite:///{directory / 'a.sqlite'}", self.clock))
        with self.service.store.change() as connection:
            chosen = AnnotationSettings(writers=WRITERS, inspectors=INSPECTORS, refusals=2, discards=2, min_captions=1)
            write_settings(self.service.store, connection, chosen)
        self.number = 0

    @rule(target=people, role=st.sampled_from(["annotator", "inspector"]))
    def come(self, role: str) -> Person:
        self.number += 1
        return join(self.service, f"person {self.number}", role)[0]

    @rule(target=held, person=people)
    def take(self, person: Person) -> tuple[Person, int | None]:
        round_ = "write" if person.role == "annotator" else "inspect"
        item = self.service.next(round_, person)["item"]
        self._check_given(round_, person, item)
        return person, item

    @rule(work=consumes(held), good=st.booleans())
    def submit(self, work: tuple[Person, int | None], good: bool) -> None:
        person, item = work
        if item is None:
            return
        self.number += 1
        key = f"key-{self.number:08d}"

        def send() -> bool:
            if person.role == "annotator":
                text = f"a caption number {self.number} with quite enough words"
                return bool(submit_caption(self.service, person, item, text, key)["taken"])
            return bool(submit_vote(self.service, person, item, good, "", key)["taken"])

        try:
            assert send()
        except StateError:
            return  # late: the item was finished by others
        assert send(), "the same submission sent again"

    @rule(work=consumes(held))
    def refuse(self, work: tuple[Person, int | None]) -> None:
        person, item = work
        if item is None or person.role != "annotator":
            return
        self.number += 1
        try:
            submit_refusal(self.service, person, item, "too dark", f"key-{self.number:08d}")
        except StateError:
            return

    @rule(person=people)
    def undo(self, person: Person) -> None:
        self.number += 1
        round_, key = "write" if person.role == "annotator" else "inspect", f"undo-{self.number:08d}"
        try:
            first = self.service.undo(person, round_, key)
        except StateError:
            return
        assert self.service.undo(person, round_, key)["done"] == first["done"], "sent again, it takes back no more"

    @rule(minutes=st.sampled_from([1, 10, 16, 60]))
    def wait(self, minutes: int) -> None:
        self.clock.now += 60 * minutes

    @rule(person=people)
    def count_work(self, person: Person) -> None:
        """What the database counts as open work is what a plain loop over everything counts."""
        with self.service.store.read() as connection:
            chosen = read_settings(self.service.store, connection)
            states = image_states(connection)
            found = {
                row.item: (row.missing, row.done)
                for row in connection.execute(ROUNDS["write"].work(), statement_values(chosen, person.id))
            }
            expected = {
                number: (state.missing(chosen), state.written)
                for number, state in states.items()
                if person.id not in state.people and state.missing(chosen)
            }
            assert found == expected
            cast: dict[int, set[int]] = {}
            for row in connection.execute(select(votes)):
                cast.setdefault(row.caption, set()).add(row.person)
            open_ = {
                row.item: (row.missing, row.done)
                for row in connection.execute(ROUNDS["inspect"].work(), statement_values(chosen, person.id))
            }
            for row in connection.execute(select(captions)):
                by = cast.get(row.id, set())
                ready = row.image in states and states[row.image].written >= WRITERS and row.state == "live"
                if ready and row.person != person.id and person.id not in by and len(by) < INSPECTORS:
                    assert open_.pop(row.id) == (INSPECTORS - len(by), len(by))
            assert not open_

    def _check_given(self, round_: str, person: Person, item: int | None) -> None:
        with self.service.store.read() as connection:
            if round_ == "inspect" and item is not None:
                author = connection.execute(select(captions.c.person).where(captions.c.id == item)).scalar_one()
                assert author != person.id, "nobody inspects their own caption"
                voted = connection.execute(select(votes.c.person).where(votes.c.caption == item)).scalars()
                assert person.id not in set(voted), "nobody inspects a caption twice"
            if round_ == "write":
                states = image_states(connection)
                chosen = read_settings(self.service.store, connection)
                if item is not None:
                    assert person.id not in states[item].people, "nobody describes an image twice"
                else:  # nothing is starved: whatever this person could do is held by others
                    live = connection.execute(select(leases.c.item).where(leases.c.expires > self.clock.now)).scalars()
                    held = list(live)
                    for number, state in states.items():
                        if person.id not in state.people:
                            assert state.missing(chosen) <= held.count(number)

    @invariant()
    def rules_hold(self) -> None:
        if not hasattr(self, "service"):
            return
        with self.service.store.read() as connection:
            chosen = read_settings(self.service.store, connection)
            states = image_states(connection)
            held: dict[tuple[str, int], int] = {}
            for row in connection.execute(select(leases).where(leases.c.expires > self.clock.now)):
                held[row.round, row.item] = held.get((row.round, row.item), 0) + 1
            for number, state in states.items():
                assert held.get(("write", number), 0) <= max(state.missing(chosen), 0), "more people than needed"
                assert len({*state.people}) >= state.written, "one caption a person and image"
            cast: dict[int, int] = {}
            for caption in connection.execute(select(votes.c.caption)).scalars():
                cast[caption] = cast.get(caption, 0) + 1
            assert all(count <= INSPECTORS for count in cast.values()), "exact overlap"
            for image in connection.execute(select(images.c.id).where(~images.c.active)).scalars():
                said = connection.execute(select(refusals.c.person).where(refusals.c.image == image)).all()
                assert len(said) >= 2, "an image leaves only when two could not describe it"

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.close()
            self.folder.cleanup()


AnnotationMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAssignment = AnnotationMachine.TestCase


def test_a_lease_that_ended_is_given_to_somebody_else(service: AnnotationService, clock: Clock) -> None:
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(writers=1, inspectors=0, min_captions=1))
    slow, quick = (join(service, name, "annotator")[0] for name in ("slow", "quick"))
    item = service.next("write", slow)["item"]
    clock.now += 16 * 60
    following = service.next("write", quick)
    while following["item"] != item:
        following = submit_caption(service, quick, following["item"], CAPTION, new_key())["next"]
    submit_caption(service, quick, item, CAPTION, new_key())
    with pytest.raises(StateError, match="others have finished"):
        submit_caption(service, slow, item, CAPTION, new_key())


def test_a_late_caption_is_taken_while_it_is_needed(service: AnnotationService, clock: Clock) -> None:
    person = join(service, "slow", "annotator")[0]
    item = service.next("write", person)["item"]
    clock.now += 3600
    assert submit_caption(service, person, item, CAPTION, new_key())["taken"]


def test_an_expired_lease_does_not_take_the_place_of_a_current_one(service: AnnotationService, clock: Clock) -> None:
    late, _ = join(service, "late", "annotator")
    item = service.next("write", late)["item"]
    clock.now += 60 * 60
    holders: list[accounts.Person] = []
    for number in range(3 * len(service.competition.selected_images())):
        person, _ = join(service, f"on time {number}", "annotator")
        if service.next("write", person)["item"] == item:
            holders.append(person)
    assert len(holders) == 3
    with pytest.raises(StateError, match="others have finished"):
        submit_caption(service, late, item, CAPTION, new_key())
    for person in holders:
        assert submit_caption(service, person, item, CAPTION, new_key())["taken"]
