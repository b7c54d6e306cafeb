"""The room: everything people can do, each as one transaction. The web pages and the command line both call this."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, select

from captrial.annotate import selected
from captrial.annotate.accounts import (
    Person,
    clean,
    one_line,
)
from captrial.annotate.assignment import Lease, assign, release, release_all
from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import (
    drafts,
    duels,
    images,
    judgements,
    receipts,
    refusals,
    sentences,
    votes,
)
from captrial.annotate.export import write_outcome
from captrial.annotate.forecast import DONE, Outlook
from captrial.annotate.rounds import qualification
from captrial.annotate.rounds.drafts import MY_DRAFT, forget_draft, keep_draft
from captrial.annotate.rounds.participation import require_consent, stand
from captrial.annotate.rounds.rounds import (
    WORK,
    discard_if_wrong,
    given,
    take,
)
from captrial.annotate.rounds.undo import take_back
from captrial.annotate.settings import Settings, read_settings
from captrial.annotate.synchronisation import Keeper
from captrial.annotate.writing_rules import check
from captrial.compete.competition import Competition
from captrial.errors import CaptrialError, InputError, NotAllowedError, StateError

MAX_SENTENCE = 1000
MAX_REASON = 300
Answer = dict[str, Any]
# What somebody sees of an item, and how many they have done.
_SEEN = {
    "write": select(select(drafts.c.text).where(MY_DRAFT).scalar_subquery().label("draft")),
    "inspect": select(sentences.c.image, sentences.c.text).where(sentences.c.id == bindparam("item")),
    "judge": select(duels, images.c.image.label("name")).join(images).where(duels.c.id == bindparam("item")),
}
_SEEN = {round_: seen.add_columns(DONE[round_].scalar_subquery().label("done")) for round_, seen in _SEEN.items()}
_log = logging.getLogger(__name__)
_NAME = select(images.c.image).where(images.c.id == bindparam("number"))


class Room:
    """An annotation of one competition."""

    def __init__(self, directory: Path | str, store: Store | None = None, database: str | None = None) -> None:
        self.directory = Path(directory)
        self.competition = Competition.open(self.directory)
        self.store = store or Store.in_directory(self.directory, database)
        self._pairs = len(self.competition.selected_pairs())
        self._flushing = threading.Lock()
        self._outlook = Outlook(self.store)
        self._queues: dict[tuple[str, int], list[int]] = {}
        self._names: dict[int, str] = {}
        with self.store.change() as connection:
            self.refresh_images(connection)
        self.flush()
        self._keeper = Keeper(self.directory, self.flush, self.reopen)

    # Images ------------------------------------------------------------------------------------------------------

    def refresh_images(self, connection: Connection) -> None:
        """Make the active images those of D as it stands."""
        if len(self.competition.selected_pairs()) >= self._pairs:  # fewer: they are being selected anew
            selected.refresh(connection, self.competition, read_settings(self.store, connection))

    def reopen(self) -> bool:
        """Take over what `compete add` or `select` have done; False while images are being selected anew."""
        fresh = Competition.open(self.directory)
        pairs = len(fresh.selected_pairs())
        if pairs < self._pairs:
            return False
        self.competition, self._pairs = fresh, pairs
        with self.store.change() as connection:
            self.refresh_images(connection)
        self.sync()
        return True

    def image_id(self, number: int) -> str | None:
        """The image behind the number that addresses show."""
        if number not in self._names:
            with self.store.read() as connection:
                name = connection.execute(_NAME, {"number": number}).scalar_one_or_none()
            if name is None:
                return None
            self._names[number] = name  # a number never means another image
        return self._names[number]

    def active_images(self) -> list[str]:
        """What people may be shown: the images of D and of the qualification."""
        with self.store.read() as connection:
            return list(connection.execute(select(images.c.image).where(images.c.active)).scalars())

    # What next -----------------------------------------------------------------------------------------------------

    def next(self, round_: str, person: Person) -> Answer:
        """The item this person works on now, with their draft; `item` is None where nothing is left for them."""
        with self.store.change() as connection:
            settings, _ = stand(connection, round_, person)
            return self._next(connection, round_, person, settings)

    def _next(
        self, connection: Connection, round_: str, person: Person, settings: Settings, free: bool = False
    ) -> Answer:
        lease = self._assign(connection, round_, person, settings, free)
        if lease is None:
            done = connection.execute(DONE[round_], {"person": person.id}).scalar_one()
            return {"round": round_, "item": None, "done": done, "left": 0}
        seen = connection.execute(_SEEN[round_], {"item": lease.item, "person": person.id}).one()
        show = {"write": self._image, "inspect": self._sentence, "judge": self._duel}[round_]
        return {
            "round": round_,
            "item": lease.item,
            "expires": lease.expires,
            "done": seen.done,
            **self._outlook.left(connection, round_, person.id, settings, seen.done),
            **show(lease.item, seen, person),
        }

    def _assign(
        self, connection: Connection, round_: str, person: Person, settings: Settings, free: bool
    ) -> Lease | None:
        values = given(settings, person.id)
        queue = self._queues.setdefault((round_, person.id), [])
        return assign(self.store, connection, round_, WORK[round_], values, settings.lease_minutes, queue, free)

    def _image(self, item: int, seen: Row[Any], person: Person) -> Answer:
        return {"image": item, "draft": seen.draft or ""}

    def _sentence(self, item: int, seen: Row[Any], person: Person) -> Answer:
        return {"image": seen.image, "sentence": seen.text}

    def _duel(self, item: int, seen: Row[Any], person: Person) -> Answer:
        said = self.competition.captions_of(seen.name)
        captions = [said[seen.first], said[seen.second]]
        return {"image": seen.image, "captions": captions[::-1] if swapped(item, person.id) else captions}

    # Submissions ---------------------------------------------------------------------------------------------------

    def write(self, person: Person, item: int, text: str, key: str) -> Answer:
        """A sentence about an image; answers with the next image."""
        text = clean(text, MAX_SENTENCE, "a sentence")
        hints = ",".join(str(hint.rule) for hint in check(text))
        values = {"image": item, "text": text, "hints": hints, "state": "live"}
        return self._submit("write", person, item, key, sentences, values)

    def refuse(self, person: Person, item: int, reason: str, key: str) -> Answer:
        """'Cannot be described'; enough such votes replace the image."""
        values = {"image": item, "reason": one_line(reason)[:MAX_REASON]}
        return self._submit("write", person, item, key, refusals, values)

    def vote(self, person: Person, item: int, right: bool, reason: str, key: str) -> Answer:
        """Right or wrong, about somebody else's sentence."""
        values = {"sentence": item, "right": right, "reason": one_line(reason)[:MAX_REASON]}
        return self._submit("inspect", person, item, key, votes, values)

    def judge(self, person: Person, item: int, winner: str, key: str) -> Answer:
        """Which of two captions is better, as shown: "left", "right" or "tie"."""
        if winner not in ("left", "right", "tie"):
            raise InputError(f"winner is left, right or tie, not {winner!r}")
        left, right = ("second", "first") if swapped(item, person.id) else ("first", "second")
        values = {"duel": item, "winner": {"left": left, "right": right}.get(winner, "tie")}
        return self._submit("judge", person, item, key, judgements, values)

    def _submit(self, round_: str, person: Person, item: int, key: str, table: Table, values: Answer) -> Answer:
        """Take a submission if the item still needs it from this person, and answer with the next item."""
        if not 8 <= len(key) <= 64:
            raise InputError("a submission needs a key of 8 to 64 characters")
        with self.store.change() as connection:
            settings, standing = stand(connection, round_, person, item, key)
            if not standing.seen:
                row = {**values, "person": person.id, **self._when(standing)}
                about = {**given(settings, person.id, item), "round": round_, "now": self.store.clock()}
                if not take(connection, round_, table, row, about):
                    raise StateError("this one has been finished by others in the meantime; here is the next")
                self._tidy(connection, round_, person, item, key)
                self._consequences(connection, settings, table, values)
            free = not standing.seen and standing.started is not None  # they hold nothing any more
            following = self._following(connection, round_, person, settings, free)
        self.sync()
        return {"taken": True, "next": following}

    def _following(
        self, connection: Connection, round_: str, person: Person, settings: Settings, free: bool
    ) -> Answer | None:
        """The next item; None where it cannot be shown now (images are being selected anew): ask for it later."""
        try:
            return self._next(connection, round_, person, settings, free)
        except CaptrialError:  # of the next item: what was submitted stands
            _log.exception("the next item cannot be shown")
            return None

    def _tidy(self, connection: Connection, round_: str, person: Person, item: int, key: str) -> None:
        """What goes with every submission."""
        with self.store.at_once(connection):
            connection.execute(receipts.insert(), {"person": person.id, "key": key, "created": self.store.clock()})
            release(connection, round_, person.id, item)
            if round_ == "write":
                forget_draft(connection, person.id, item)
            self.store.note(connection, person.id, round_, f"item {item}")

    def _consequences(self, connection: Connection, settings: Settings, table: Table, values: Answer) -> None:
        """What may come of a submission."""
        if table is refusals:
            self.refresh_images(connection)
        elif table is votes and not values["right"]:
            discard_if_wrong(connection, settings, values["sentence"])

    def undo(self, person: Person, round_: str, key: str) -> Answer:
        """Take back the last submission, as long as nothing has come of it; a sentence becomes the draft again.

        With a key that was seen before nothing more is taken back: people's browsers ask again when no answer came.
        """
        with self.store.change() as connection:
            settings, standing = stand(connection, round_, person, key=key)
            if not standing.seen:
                self._take_back(connection, round_, person, settings)
                connection.execute(receipts.insert(), {"person": person.id, "key": key, "created": self.store.clock()})
            following = self._next(connection, round_, person, settings)
        self.sync()
        return following

    def _take_back(self, connection: Connection, round_: str, person: Person, settings: Settings) -> None:
        """Undo, and give the person the same item again."""
        item, text = take_back(connection, round_, person.id)
        release_all(connection, round_, person.id)
        if text is not None:
            keep_draft(self.store, connection, person.id, item, text)
        self.store.note(connection, person.id, f"undo {round_}", f"item {item}")
        values = given(settings, person.id)
        assign(self.store, connection, round_, WORK[round_], values, settings.lease_minutes, [item])

    def save_draft(self, person: Person, item: int, text: str) -> None:
        """Keep what is being written; a draft that comes after the sentence itself is too late to matter."""
        with self.store.change() as connection:
            stand(connection, "write", person)
            if self.image_id(item) is None:
                raise InputError(f"there is no item {item}")
            keep_draft(self.store, connection, person.id, item, text.replace("\0", "")[:MAX_SENTENCE])

    # Qualification -------------------------------------------------------------------------------------------------

    def next_trial(self, person: Person) -> Answer:
        """The next image of the qualification."""
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
        require_consent(person)

    # Outcome -------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Ask for the files that `compete` reads to be brought up to date, which happens soon."""
        self.store.afterwards(self._keeper.wake)

    def flush(self) -> None:
        """Bring the files up to date now; one at a time, so that an older state never replaces a newer one."""
        with self._flushing, self.store.read() as connection:
            write_outcome(connection, read_settings(self.store, connection), self.directory)

    @property
    def closed(self) -> threading.Event:
        """Set when the room closes."""
        return self._keeper.closed

    def close(self) -> None:
        """Write what is waiting and close the database."""
        self._keeper.close()
        self.flush()
        self.store.close()

    def _when(self, standing: Row[Any]) -> Answer:
        """Now; and how long it took, where the lease says so."""
        now = self.store.clock()
        timely = standing.started is not None and standing.expires > now
        return {"created": now, "seconds": round(now - standing.started, 2) if timely else None}


def swapped(item: int, person: int) -> bool:
    """Whether this person sees the second caption on the left: blind, and different for different people."""
    return (item * 2654435761 + person * 40503) >> 7 & 1 == 1
