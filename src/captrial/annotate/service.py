"""`AnnotationService`: everything people can do in an annotation, each as one transaction.

The web application and the command line both call this.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, Row, Select, bindparam, select

from captrial.annotate import accounts
from captrial.annotate.accounts import Person
from captrial.annotate.competition_sync import (
    DirectorySync,
    check_database,
    check_directory,
    refresh_images,
    write_competition_files,
)
from captrial.annotate.database.schema import drafts, images, leases, receipts
from captrial.annotate.database.transactions import Store
from captrial.annotate.import_export import ImportResult, export, import_references
from captrial.annotate.progress_report import (
    TimeLeft,
    annotator_statistics,
    done_by_person,
    missing_people,
    progress,
    statistics,
)
from captrial.annotate.rounds.assignment import AssignmentRequest, assign, release, release_all
from captrial.annotate.rounds.base import (
    AnnotationRound,
    Answer,
    AnswerForm,
    check_participation,
    statement_values,
    store_answer,
)
from captrial.annotate.rounds.inspect import refresh_states
from captrial.annotate.rounds.registry import QUALIFICATION, ROUNDS, get_round
from captrial.annotate.rounds.write import save_draft
from captrial.annotate.settings import AnnotationSettings, read_settings, write_settings
from captrial.compete.competition import Competition
from captrial.errors import CaptrialError, InputError, StateError
from captrial.files import content_hash

_log = logging.getLogger(__name__)
_IMAGE_ID = select(images.c.image).where(images.c.id == bindparam("number"))


class AnnotationService:
    """The annotation of one competition.

    `service.next("write", person)` assigns an item, `service.submit("write", person, CaptionForm(...))` stores an
    answer and returns the next item. With `read_only=True`, for reports and exports, nothing is written anywhere.
    """

    def __init__(
        self,
        directory: Path | str,
        store: Store | None = None,
        database: str | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self.competition = Competition.open(self.directory)
        if store is None:
            check_directory(self.directory, database)
            store = Store.in_directory(self.directory, database, read_only)
        self.store = store
        try:
            self._head = check_database(self.store, self.competition)
        except BaseException:
            self.store.close()
            raise
        self._pairs = len(self.competition.selected_pairs())
        self._writing_files = threading.Lock()
        self._time_left = TimeLeft(self.store)
        self._queues: dict[tuple[str, int], list[int]] = {}
        self._image_ids: dict[int, str] = {}
        self._sync: DirectorySync | None = None
        if not self.store.read_only:
            with self.store.change() as connection:
                self.refresh_images(connection)
            self.write_files()
            self._sync = DirectorySync(self.directory, self.write_files, self.reload_competition)

    # Images ----------------------------------------------------------------------------------------------------------

    def refresh_images(self, connection: Connection) -> None:
        """Make the selected images of the competition the active ones."""
        if len(self.competition.selected_pairs()) >= self._pairs:  # fewer while images are being selected again
            refresh_images(connection, self.competition, read_settings(self.store, connection))

    def reload_competition(self) -> bool:
        """Read what `compete add` or `select` have changed; False while images are being selected again."""
        fresh = Competition.open(self.directory)
        pairs = len(fresh.selected_pairs())
        if pairs < self._pairs:
            return False
        self.competition, self._pairs = fresh, pairs
        with self.store.change() as connection:
            self.refresh_images(connection)
        self.schedule_write()
        return True

    def image_id(self, number: int) -> str | None:
        """The id of the image that has this number in addresses."""
        if number not in self._image_ids:
            with self.store.read() as connection:
                found = connection.execute(_IMAGE_ID, {"number": number}).scalar_one_or_none()
            if found is None:
                return None
            self._image_ids[number] = found  # the number of an image never changes
        return self._image_ids[number]

    def active_images(self) -> list[str]:
        """The images people may be shown: those of the selections and of the qualification."""
        with self.store.read() as connection:
            return list(connection.execute(select(images.c.image).where(images.c.active)).scalars())

    # Rounds ----------------------------------------------------------------------------------------------------------

    def next(self, round_name: str, person: Person) -> Answer:
        """The item this person works on now, with their draft; `item` is None where nothing is left for them."""
        round_ = get_round(round_name)
        with self.store.change() as connection:
            settings, _ = check_participation(connection, round_, person)
            return self._next(_Turn(connection, round_, person, settings))

    def submit(self, round_name: str, person: Person, form: AnswerForm) -> Answer:
        """Store an answer if the item still needs it from this person; returns the next item."""
        round_ = get_round(round_name)
        with self.store.change() as connection:
            settings, found = check_participation(connection, round_, person, form.item, form.key)
            turn = _Turn(connection, round_, person, settings)
            if not _repeats(found, _subject(round_name, form)):
                self._store(turn, form, found)
            has_lease = found.received is not None or found.started is None  # a submission ends the lease on its item
            following = self._next_if_possible(turn, has_lease)
        self.schedule_write()
        return {"taken": True, "next": following}

    def undo(self, person: Person, round_name: str, key: str) -> Answer:
        """Undo the last submission, as long as nothing follows from it; a caption becomes the draft again.

        With a key that was received before nothing more is undone: browsers ask again when no answer came.
        """
        round_ = get_round(round_name)
        with self.store.change() as connection:
            settings, found = check_participation(connection, round_, person, key=key)
            turn = _Turn(connection, round_, person, settings)
            subject = f"undo {round_name}"
            if not _repeats(found, subject):
                item = round_.undo(self.store, connection, person.id)
                release_all(connection, round_.name, person.id)
                self.store.note(connection, person.id, f"undo {round_.name}", f"item {item}")
                assign(self.store, connection, turn.request(), [item])
                connection.execute(receipts.insert(), self._receipt(person, key, subject))
            following = self._next(turn)
        self.schedule_write()
        return following

    def save_draft(self, person: Person, item: int, text: str) -> None:
        """Save a caption that is being written; after the caption itself was submitted a draft is ignored."""
        with self.store.change() as connection:
            check_participation(connection, ROUNDS["write"], person)
            if self.image_id(item) is None:
                raise InputError(f"there is no item {item}")
            save_draft(self.store, connection, person.id, item, text)

    def next_practice(self, person: Person) -> Answer:
        """The next image of the qualification."""
        with self.store.read() as connection:
            return QUALIFICATION.next(self.store, connection, person)

    def submit_practice(self, person: Person, item: int, text: str) -> Answer:
        """Submit a caption of the qualification; returns what is good about it and what is not."""
        return QUALIFICATION.submit(self.store, person, item, text)

    def _next(self, turn: _Turn, has_lease: bool = True) -> Answer:
        connection, round_, person = turn.connection, turn.round, turn.person.id
        queue = self._queues.setdefault((round_.name, person), [])
        lease = assign(self.store, connection, turn.request(), queue, has_lease)
        if lease is None:
            done = connection.execute(done_by_person(round_), {"person": person}).scalar_one()
            return {"round": round_.name, "item": None, "done": done, "left": 0}
        row = connection.execute(_shown(round_), {"item": lease.item, "person": person}).one()
        return {
            "round": round_.name,
            "item": lease.item,
            "expires": lease.expires,
            "done": row.done,
            **self._time_left.estimate(connection, round_, person, turn.settings, row.done),
            **round_.show(lease.item, row, person, self.competition),
        }

    def _next_if_possible(self, turn: _Turn, has_lease: bool) -> Answer | None:
        """The next item; None where it cannot be shown now (images are being selected again): ask for it later."""
        try:
            return self._next(turn, has_lease)
        except CaptrialError:  # about the next item: the submission is stored all the same
            _log.exception("the next item cannot be shown")
            return None

    def _store(self, turn: _Turn, form: AnswerForm, found: Row[Any]) -> None:
        connection, round_, person = turn.connection, turn.round, turn.person
        now = self.store.clock()
        timely = found.started is not None and found.expires > now
        times = {"created": now, "seconds": round(now - found.started, 2) if timely else None}
        row = {**round_.row(connection, form, person.id), "person": person.id, **times}
        values = {**statement_values(turn.settings, person.id, form.item), "round": round_.name, "now": now}
        if not store_answer(connection, round_, form.table, row, values):
            raise StateError("others have finished this one in the meantime; here is the next")
        with self.store.pipeline(connection):
            connection.execute(receipts.insert(), self._receipt(person, form.key, _subject(round_.name, form)))
            release(connection, round_.name, person.id, form.item)
            round_.forget_draft(connection, person.id, form.item)
            self.store.note(connection, person.id, round_.name, f"item {form.item}")
        if round_.after_answer(connection, turn.settings, form):
            self.refresh_images(connection)

    def _receipt(self, person: Person, key: str, subject: str) -> Answer:
        return {"person": person.id, "key": key, "created": self.store.clock(), "subject": subject}

    # The lead --------------------------------------------------------------------------------------------------------

    def settings(self) -> AnnotationSettings:
        """The settings as they are now."""
        with self.store.read() as connection:
            return read_settings(self.store, connection)

    def change_settings(self, changes: Mapping[str, Any], by: int | None = None) -> None:
        """Change some settings."""
        with self.store.change() as connection:
            before = read_settings(self.store, connection)
            write_settings(self.store, connection, AnnotationSettings(**{**vars(before), **changes}), by)
            refresh_states(connection, read_settings(self.store, connection))
            self.refresh_images(connection)
        self.schedule_write()

    def invite(self, name: str, role: str, by: int | None = None) -> tuple[Person, str]:
        """Add a person; returns them and the path of their invitation link, which cannot be shown again."""
        with self.store.change() as connection:
            person, token = accounts.invite(self.store, connection, name, role, by)
        return person, f"/join/{token}"

    def invite_first_lead(self) -> str | None:
        """The path of an invitation link for a lead; None where there is a lead already."""
        with self.store.read() as connection:
            if any(person.role == "lead" for person in accounts.all_people(connection)):
                return None
        return self.invite("lead", "lead")[1]

    def remember_address(self, address: str) -> None:
        """Store where the pages are served, for links that are made without a browser."""
        with self.store.change() as connection:
            self.store.set_setting(connection, "address", address)

    def last_address(self) -> str | None:
        """Where the pages were served last."""
        with self.store.read() as connection:
            found = self.store.get_text(connection, "address")
        return None if found is None else str(orjson.loads(found))

    def remove_person(self, person: int, by: int | None = None) -> None:
        """Remove a person's data on request: erase or delete all they did, and close the account."""
        with self.store.change() as connection:
            for round_ in (QUALIFICATION, *ROUNDS.values()):
                round_.remove_person(connection, person)
            for table in (leases, drafts, receipts):
                connection.execute(table.delete().where(table.c.person == person))
            accounts.close_account(self.store, connection, person, by)
            refresh_states(connection, read_settings(self.store, connection))  # their votes no longer discard captions
            self.refresh_images(connection)
        self.schedule_write()

    def report(self) -> dict[str, Any]:
        """Progress of the rounds, statistics of the accepted captions, and what each person did."""
        with self.store.read() as connection:
            settings = read_settings(self.store, connection)
            return {
                "progress": progress(connection, settings),
                "statistics": statistics(connection, settings),
                "people": annotator_statistics(connection),
                "missing_people": missing_people(connection, settings),
            }

    def missing_people(self) -> list[str]:
        """Rounds for which too few people are invited, in words."""
        with self.store.read() as connection:
            return missing_people(connection, read_settings(self.store, connection))

    def export(self, form: str, names: bool = False, by: int | None = None) -> tuple[bytes, str]:
        """Content and file name of an export (see `captrial.annotate.import_export.EXPORTS`)."""
        with self.store.read() as connection:
            found = export(connection, read_settings(self.store, connection), form, names)
        if not self.store.read_only:  # separate: an export takes long, and changes wait for each other
            with self.store.change() as connection:
                self.store.note(connection, by, "export", f"{form} with names" if names else form)
        return found

    def import_references(self, references: Mapping[str, Sequence[str]]) -> ImportResult:
        """Store references from another source (see `captrial.annotate.import_export.import_references`)."""
        found = import_references(self.store, references)
        self.write_files()
        return found

    # Files of the competition ----------------------------------------------------------------------------------------

    def schedule_write(self) -> None:
        """Have the files that `compete` reads written soon, by another thread."""
        if self._sync is not None:
            self.store.after_commit(self._sync.schedule)

    def write_files(self) -> None:
        """Write the files that `compete` reads now; one call at a time, so that no older state replaces a newer."""
        with self._writing_files, self.store.read() as connection:
            write_competition_files(connection, read_settings(self.store, connection), self.directory, self._head)

    @property
    def closed(self) -> threading.Event:
        """Set when the service closes."""
        return self._sync.closed if self._sync is not None else threading.Event()

    def close(self) -> None:
        """Write the files and close the database."""
        if self._sync is not None:
            self._sync.close()
            self.write_files()
        self.store.close()


@dataclass(frozen=True, slots=True)
class _Turn:
    """A person who takes part in a round, in a transaction."""

    connection: Connection
    round: AnnotationRound
    person: Person
    settings: AnnotationSettings

    def request(self) -> AssignmentRequest:
        """A request for an item."""
        values = statement_values(self.settings, self.person.id)
        return AssignmentRequest(self.round.name, self.round.work, values, self.settings.lease_minutes)


def _subject(round_name: str, form: AnswerForm) -> str:
    """What was sent with a key, as a hash: the round, the kind of answer, the item and the answer."""
    return content_hash(f"{round_name} {form.action} {form.model_dump_json(exclude={'key'})}", 32)


def _repeats(found: Row[Any], subject: str) -> bool:
    """Whether the same was received before; refuses a key that came with something else, of which nothing is stored."""
    if found.received is None:
        return False
    if found.received not in ("", subject):  # "" in databases of earlier versions
        raise StateError("this key was used for another submission, and nothing was stored; send it with a new key")
    return True


@cache
def _shown(round_: AnnotationRound) -> Select[Any]:
    """What a person sees of an item, and how many they have done."""
    return round_.shown.add_columns(done_by_person(round_).scalar_subquery().label("done"))
