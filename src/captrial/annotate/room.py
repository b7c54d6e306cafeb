"""The room: everything people can do, each as one transaction. The web pages and the command line both call this."""

from __future__ import annotations

import logging
import math
import threading
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.exc import SQLAlchemyError

from captrial.annotate import qualification
from captrial.annotate.assignment import Lease, assign, may_do, release, release_all, what_is_open
from captrial.annotate.outcome import write_outcome
from captrial.annotate.people import NotAllowedError, Person, clean, one_line
from captrial.annotate.rounds import (
    STANDING,
    discard_if_wrong,
    given,
    indescribable,
    inspect_work,
    judge_work,
    write_work,
)
from captrial.annotate.rules import check
from captrial.annotate.schema import drafts, duels, judgements, people, pictures, refusals, sentences, votes
from captrial.annotate.settings import Settings, read_settings
from captrial.annotate.store import Store
from captrial.annotate.undo import take_back
from captrial.compete.competition import Competition
from captrial.errors import InputError, StateError

MAX_SENTENCE = 1000
MAX_REASON = 300
WORK = {"write": write_work, "inspect": inspect_work, "judge": judge_work}
TABLES = {"write": sentences, "inspect": votes, "judge": judgements}
ROLES_OF = {"write": ("annotator",), "inspect": ("inspector",), "judge": ("annotator", "inspector")}
Answer = dict[str, Any]
# Statements of every request, built once.
_MY_DRAFT = (
    (drafts.c.round == "write") & (drafts.c.item == bindparam("item")) & (drafts.c.person == bindparam("person"))
)
_DRAFT, _FORGET_DRAFT = select(drafts.c.text).where(_MY_DRAFT), drafts.delete().where(_MY_DRAFT)
_SENTENCE = select(sentences.c.picture, sentences.c.text).where(sentences.c.id == bindparam("item"))
_DONE = {
    round_: select(func.count()).select_from(table).where(table.c.person == bindparam("person"))
    for round_, table in TABLES.items()
}
_DONE["write"] = _DONE["write"].where(sentences.c.state.in_(STANDING))
_COLLEAGUES = (
    select(func.count())
    .select_from(people)
    .where(people.c.role.in_(bindparam("roles", expanding=True)), people.c.qualified.is_not(None))
    .where(people.c.removed.is_(None))
)
_PACE = {
    round_: select(table.c.seconds)
    .where(table.c.person == bindparam("person"), table.c.seconds.is_not(None))
    .order_by(table.c.created.desc())
    .limit(20)
    for round_, table in TABLES.items()
}
_log = logging.getLogger(__name__)


class Room:
    """An annotation of one competition."""

    def __init__(self, directory: Path | str, store: Store | None = None) -> None:
        self.directory = Path(directory)
        self.competition = Competition.open(self.directory)
        self.store = store or Store.in_directory(self.directory)
        self._stale, self.closed, self._flushing = threading.Event(), threading.Event(), threading.Lock()
        self._queues: dict[tuple[str, int], list[int]] = {}
        self._shares: dict[str, tuple[float, int]] = {}  # when, items for each person
        self._outlooks: dict[tuple[str, int], tuple[float, int, float | None]] = {}  # when, items in all, seconds each
        with self.store.change() as connection:
            self.refresh_pictures(connection)
        self.flush()
        self._writer = threading.Thread(target=self._keep_current, name="outcome", daemon=True)
        self._writer.start()

    # Pictures ------------------------------------------------------------------------------------------------------

    def refresh_pictures(self, connection: Connection) -> None:
        """Make the active pictures those of D as it stands: selections, less the indescribable, plus their reserves."""
        settings = read_settings(self.store, connection)
        voted = frozenset(indescribable(connection, settings))
        ours = frozenset(connection.execute(select(pictures.c.picture)).scalars())
        bad = voted | (self.competition.indescribable() - ours)  # what we asked about, our votes decide
        wanted: dict[str, set[tuple[str, str]]] = {}
        for pair in self.competition.selected_pairs():
            active = self.competition.selection(*pair, bad=bad)
            for picture in active.images:
                wanted.setdefault(picture, set()).add(active.models)
        known = {row.picture: row for row in connection.execute(select(pictures).where(~pictures.c.qualification))}
        for picture in sorted(wanted.keys() - known.keys()):
            connection.execute(pictures.insert().values(picture=picture, active=True, qualification=False))
        for picture, row in known.items():
            if row.active != (picture in wanted):
                change = pictures.update().where(pictures.c.id == row.id)
                connection.execute(change.values(active=picture in wanted))
        if settings.judges:
            self._refresh_duels(connection, wanted)

    def _refresh_duels(self, connection: Connection, wanted: dict[str, set[tuple[str, str]]]) -> None:
        numbers = {row.picture: row.id for row in connection.execute(select(pictures.c.id, pictures.c.picture))}
        known = {(row.picture, row.first, row.second) for row in connection.execute(select(duels))}
        for picture, pairs in sorted(wanted.items()):
            for first, second in sorted(pairs):
                if (numbers[picture], first, second) not in known:
                    connection.execute(duels.insert().values(picture=numbers[picture], first=first, second=second))

    def picture_id(self, number: int) -> str | None:
        """The picture behind the number that addresses show."""
        with self.store.read() as connection:
            return connection.execute(select(pictures.c.picture).where(pictures.c.id == number)).scalar_one_or_none()

    # What next -----------------------------------------------------------------------------------------------------

    def next(self, round_: str, person: Person) -> Answer:
        """The item this person works on now, with their draft; `item` is None where nothing is left for them."""
        with self.store.change() as connection:
            settings = read_settings(self.store, connection)
            self._allow(round_, person, settings)
            return self._next(connection, round_, person, settings)

    def _next(self, connection: Connection, round_: str, person: Person, settings: Settings) -> Answer:
        lease = self._assign(connection, round_, person, settings)
        done = self._count_done(connection, round_, person.id)
        if lease is None:
            return {"round": round_, "item": None, "done": done, "left": 0}
        item = {"write": self._picture, "inspect": self._sentence, "judge": self._duel}[round_]
        return {
            "round": round_,
            "item": lease.item,
            "expires": lease.expires,
            "done": done,
            **self._outlook(connection, round_, person, settings, done),
            **item(connection, lease.item, person),
        }

    def _assign(self, connection: Connection, round_: str, person: Person, settings: Settings) -> Lease | None:
        work, one = WORK[round_](), WORK[round_](one=True)
        values = given(settings, person.id)
        queue = self._queues.setdefault((round_, person.id), [])
        return assign(self.store, connection, round_, work, one, values, settings.lease_minutes, queue)

    def _outlook(
        self, connection: Connection, round_: str, person: Person, settings: Settings, done: int
    ) -> dict[str, float | None]:
        """About how many items are left for this person, and how many minutes that takes; counted twice a minute."""
        now = self.store.clock()
        when, total, pace = self._outlooks.get((round_, person.id), (-math.inf, 0, None))
        if now - when > 30:
            total = done + self._share(connection, round_, settings)
            pace = self._pace(connection, round_, person)
            self._outlooks[round_, person.id] = now, total, pace
        left = max(total - done, 1)
        return {"left": left, "minutes": None if pace is None else round(left * pace / 60, 1)}

    def _share(self, connection: Connection, round_: str, settings: Settings) -> int:
        """Items for each person, if all share the work; counted for all together, every few seconds."""
        when, share = self._shares.get(round_, (-math.inf, 0))
        if self.store.clock() - when > 10:
            left = what_is_open(connection, WORK[round_](), given(settings, person=0))
            mates = connection.execute(_COLLEAGUES, {"roles": ROLES_OF[round_]}).scalar_one()
            share = min(left.items, math.ceil(left.work / max(mates, 1)))
            self._shares[round_] = self.store.clock(), share
        return share

    def _pace(self, connection: Connection, round_: str, person: Person) -> float | None:
        """Seconds this person takes for an item."""
        pace = connection.execute(_PACE[round_], {"person": person.id}).scalars().all()
        return median(pace) if pace else None

    def _allow(self, round_: str, person: Person, settings: Settings) -> None:
        if person.role not in ROLES_OF[round_]:
            raise NotAllowedError(f"this round is not for the role {person.role}")
        if not person.consented:
            raise NotAllowedError("please read and accept the consent text first")
        if not person.qualified:
            raise NotAllowedError("please pass the qualification first")
        if (round_ == "inspect" and not settings.inspectors) or (round_ == "judge" and not settings.judges):
            raise StateError("this round is not part of this experiment")

    def _picture(self, connection: Connection, item: int, person: Person) -> Answer:
        found = connection.execute(_DRAFT, {"item": item, "person": person.id}).scalar_one_or_none()
        return {"picture": item, "draft": found or ""}

    def _sentence(self, connection: Connection, item: int, person: Person) -> Answer:
        row = connection.execute(_SENTENCE, {"item": item}).one()
        return {"picture": row.picture, "sentence": row.text}

    def _duel(self, connection: Connection, item: int, person: Person) -> Answer:
        row = connection.execute(
            select(duels, pictures.c.picture.label("name")).join(pictures).where(duels.c.id == item)
        ).one()
        said = self.competition.captions_of(row.name)
        captions = [said[row.first], said[row.second]]
        return {"picture": row.picture, "captions": captions[::-1] if swapped(item, person.id) else captions}

    def _count_done(self, connection: Connection, round_: str, person: int) -> int:
        return int(connection.execute(_DONE[round_], {"person": person}).scalar_one())

    # Submissions ---------------------------------------------------------------------------------------------------

    def write(self, person: Person, item: int, text: str, key: str) -> Answer:
        """A sentence about a picture; answers with the next picture."""
        text = clean(text, MAX_SENTENCE, "a sentence")
        hints = ",".join(str(hint.rule) for hint in check(text))

        def action(connection: Connection, started: float | None) -> None:
            values = {"picture": item, "person": person.id, "text": text, "hints": hints, "state": "live"}
            connection.execute(sentences.insert(), {**values, **self._when(started)})
            self._forget_draft(connection, person, item)

        return self._submit("write", person, item, key, action)

    def refuse(self, person: Person, item: int, reason: str, key: str) -> Answer:
        """'Cannot be described'; enough such votes replace the picture."""
        reason = one_line(reason)[:MAX_REASON]

        def action(connection: Connection, started: float | None) -> None:
            values = {"picture": item, "person": person.id, "reason": reason, "created": self.store.clock()}
            connection.execute(refusals.insert().values(**values))
            self._forget_draft(connection, person, item)
            self.refresh_pictures(connection)

        return self._submit("write", person, item, key, action)

    def vote(self, person: Person, item: int, right: bool, reason: str, key: str) -> Answer:
        """Right or wrong, about somebody else's sentence."""
        reason = one_line(reason)[:MAX_REASON]

        def action(connection: Connection, started: float | None) -> None:
            values = {"sentence": item, "person": person.id, "right": right, "reason": reason}
            connection.execute(votes.insert(), {**values, **self._when(started)})
            if not right:
                discard_if_wrong(connection, read_settings(self.store, connection), item)

        return self._submit("inspect", person, item, key, action)

    def judge(self, person: Person, item: int, winner: str, key: str) -> Answer:
        """Which of two captions is better, as shown: "left", "right" or "tie"."""
        if winner not in ("left", "right", "tie"):
            raise InputError(f"winner is left, right or tie, not {winner!r}")
        left, right = ("second", "first") if swapped(item, person.id) else ("first", "second")

        def action(connection: Connection, started: float | None) -> None:
            values = {"duel": item, "person": person.id, "winner": {"left": left, "right": right}.get(winner, "tie")}
            connection.execute(judgements.insert(), {**values, **self._when(started)})

        return self._submit("judge", person, item, key, action)

    def _submit(self, round_: str, person: Person, item: int, key: str, action: Any) -> Answer:
        """Take a submission if the item still needs it from this person, and answer with the next item."""
        if not 8 <= len(key) <= 64:
            raise InputError("a submission needs a key of 8 to 64 characters")
        with self.store.change() as connection:
            settings = read_settings(self.store, connection)
            self._allow(round_, person, settings)

            def once() -> Answer:
                if not may_do(connection, WORK[round_](one=True), given(settings, person.id, item)):
                    raise StateError("this one has been finished by others in the meantime; here is the next")
                action(connection, release(connection, round_, person.id, item))
                self.store.note(connection, person.id, round_, f"item {item}")
                return {"taken": True}

            answer = self.store.once(connection, person.id, key, once)
            following = self._next(connection, round_, person, settings)
        self.sync()
        return {**answer, "next": following}

    def undo(self, person: Person, round_: str = "write") -> Answer:
        """Take back the last submission, as long as nothing has come of it; a sentence becomes the draft again."""
        with self.store.change() as connection:
            settings = read_settings(self.store, connection)
            self._allow(round_, person, settings)
            item, text = take_back(connection, round_, person.id)
            release_all(connection, round_, person.id)
            if text is not None:
                self._keep_draft(connection, person, item, text)
            self.store.note(connection, person.id, f"undo {round_}", f"item {item}")
            only = WORK[round_](one=True)
            assign(self.store, connection, round_, only, only, given(settings, person.id, item), settings.lease_minutes)
            following = self._next(connection, round_, person, settings)
        self.sync()
        return following

    def save_draft(self, person: Person, item: int, text: str) -> None:
        """Keep what is being written; a draft that comes after the sentence itself is too late to matter."""
        with self.store.change() as connection:
            self._allow("write", person, read_settings(self.store, connection))
            if not connection.execute(select(pictures.c.id).where(pictures.c.id == item)).first():
                raise InputError(f"there is no item {item}")
            mine = (sentences.c.picture == item) & (sentences.c.person == person.id)
            if not connection.execute(select(sentences.c.id).where(mine)).first():
                self._keep_draft(connection, person, item, text.replace("\0", "")[:MAX_SENTENCE])

    def _forget_draft(self, connection: Connection, person: Person, item: int) -> None:
        connection.execute(_FORGET_DRAFT, {"item": item, "person": person.id})

    def _keep_draft(self, connection: Connection, person: Person, item: int, text: str) -> None:
        self._forget_draft(connection, person, item)
        values = {"round": "write", "item": item, "person": person.id, "text": text, "saved": self.store.clock()}
        connection.execute(drafts.insert(), values)

    # Qualification -------------------------------------------------------------------------------------------------

    def next_trial(self, person: Person) -> Answer:
        """The next picture of the qualification."""
        self._may_practise(person)
        with self.store.read() as connection:
            return qualification.next_trial(self.store, connection, person)

    def try_sentence(self, person: Person, item: int, text: str) -> Answer:
        """A sentence of the qualification: answers with what is good about it and what is not."""
        self._may_practise(person)
        text = clean(text, MAX_SENTENCE, "a sentence")
        with self.store.read() as connection:
            known = qualification.known_captions(self.store, connection, item)
        hints = qualification.mark(text, known)  # parses the sentences: not while others wait for the database
        with self.store.change() as connection:
            return qualification.take(self.store, connection, person, item, text, hints)

    def _may_practise(self, person: Person) -> None:
        if person.role != "annotator":
            raise NotAllowedError(f"the qualification is not for the role {person.role}")
        if not person.consented:
            raise NotAllowedError("please read and accept the consent text first")

    # Outcome -------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Ask for the files that `compete` reads to be brought up to date, which happens within a second."""
        self._stale.set()

    def flush(self) -> None:
        """Bring the files up to date now; one at a time, so that an older state never replaces a newer one."""
        with self._flushing:
            self._stale.clear()
            with self.store.read() as connection:
                write_outcome(connection, read_settings(self.store, connection), self.directory)

    def close(self) -> None:
        """Write what is waiting and close the database."""
        self.closed.set()
        self._stale.set()
        self._writer.join()
        self.flush()
        self.store.close()

    def _keep_current(self) -> None:
        """Write the outcome at most once a second: it is derived, the database is what must not be lost."""
        while not self.closed.is_set():
            self._stale.wait()
            if not self.closed.wait(1.0):
                try:
                    self.flush()
                except (OSError, SQLAlchemyError):  # a full disk, a database that restarts: the next second may do
                    _log.exception("could not bring the competition's files up to date; trying again")
                    self._stale.set()

    def _when(self, started: float | None) -> Answer:
        now = self.store.clock()
        return {"created": now, "seconds": None if started is None else round(now - started, 2)}


def swapped(item: int, person: int) -> bool:
    """Whether this person sees the second caption on the left: blind, and different for different people."""
    return (item * 2654435761 + person * 40503) >> 7 & 1 == 1
