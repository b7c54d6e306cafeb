"""Sentences that were written elsewhere, taken as if an annotator had written them and inspectors had accepted them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from sqlalchemy import Connection, select

from captrial.annotate import accounts
from captrial.annotate.database.schema import images, sentences, votes
from captrial.annotate.rounds.qualification import qualify
from captrial.annotate.service import MAX_SENTENCE, Room
from captrial.annotate.settings import read_settings


def import_references(room: Room, references: Mapping[str, Sequence[str]]) -> tuple[int, int]:
    """Take references of active images; returns how many sentences were taken and how many images are unknown.

    Each caption of an image is written by another imported person, since nobody describes an image twice; a sentence
    that is already there is not taken again.
    """
    with room.store.change() as connection:
        active = select(images.c.id, images.c.image).where(images.c.active, ~images.c.qualification)
        numbers = {row.image: row.id for row in connection.execute(active)}
        clerk = _Clerk(room, connection)
        taken = 0
        for image in sorted(references.keys() & numbers.keys()):
            for caption in references[image]:
                text = accounts.clean(caption, MAX_SENTENCE, f"a caption of {image}")
                taken += clerk.take(numbers[image], text)
        room.store.note(connection, None, "import", f"{taken} sentences")
    room.flush()
    return taken, len(references.keys() - numbers.keys())


class _Clerk:
    """Writes what others wrote, in the names of people made for that."""

    def __init__(self, room: Room, connection: Connection) -> None:
        self.store, self.connection = room.store, connection
        self.known = {person.name: person.id for person in accounts.everybody(connection)}
        rows = connection.execute(select(sentences.c.image, sentences.c.text, sentences.c.person)).all()
        self.texts = {(row.image, row.text) for row in rows}
        self.wrote = {(row.image, row.person) for row in rows}
        wanted = range(1, read_settings(room.store, connection).inspectors + 1)
        self.inspectors = [self._somebody(f"import inspector {number}", "inspector") for number in wanted]

    def take(self, image: int, text: str) -> bool:
        """Whether the sentence is new; then it is written, and accepted."""
        if (image, text) in self.texts:
            return False
        writer = self._writer(image)
        self.texts.add((image, text))
        self.wrote.add((image, writer))
        now = self.store.clock()
        sentence = {"image": image, "person": writer, "text": text, "hints": "", "state": "live", "created": now}
        added = sentences.insert().values(**sentence).returning(sentences.c.id)
        number = self.connection.execute(added).scalar_one()
        accepted = {"sentence": number, "right": True, "created": now}
        for inspector in self.inspectors:
            self.connection.execute(votes.insert().values(**accepted, person=inspector))
        return True

    def _writer(self, image: int) -> int:
        """An imported person who has not described the image."""
        writers = (self._somebody(f"imported {number}", "annotator") for number in count(1))
        return next(writer for writer in writers if (image, writer) not in self.wrote)

    def _somebody(self, name: str, role: str) -> int:
        """The person of that name, made where there is none."""
        if name not in self.known:
            person, _ = accounts.invite(self.store, self.connection, name, role)
            qualify(self.store, self.connection, person.id)
            self.known[name] = person.id
        return self.known[name]
