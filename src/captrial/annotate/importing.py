"""Sentences that were written elsewhere, taken as if an annotator had written them and inspectors had accepted them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from captrial.annotate import people
from captrial.annotate.qualification import qualify
from captrial.annotate.room import MAX_SENTENCE, Room
from captrial.annotate.schema import pictures, sentences, votes
from captrial.annotate.settings import read_settings


def import_references(room: Room, references: Mapping[str, Sequence[str]]) -> tuple[int, int]:
    """Take references of active pictures; returns how many sentences were taken and how many pictures are unknown.

    Each caption of a picture is written by another imported person, since nobody describes a picture twice; a sentence
    that is already there is not taken again.
    """
    store = room.store
    with store.change() as connection:
        settings = read_settings(store, connection)
        active = select(pictures.c.id, pictures.c.picture).where(pictures.c.active, ~pictures.c.qualification)
        known = {row.picture: row.id for row in connection.execute(active)}
        rows = connection.execute(select(sentences.c.picture, sentences.c.text, sentences.c.person)).all()
        there = {(row.picture, row.text) for row in rows}
        wrote = {(row.picture, row.person) for row in rows}
        writers: list[int] = []
        inspectors = [
            _somebody(room, connection, f"import inspector {number}", "inspector")
            for number in range(1, settings.inspectors + 1)
        ]
        taken = 0
        for picture, captions in references.items():
            for caption in captions:
                text = people.clean(caption, MAX_SENTENCE, f"a caption of {picture}")
                if picture not in known or (known[picture], text) in there:
                    continue
                writer = next((one for one in writers if (known[picture], one) not in wrote), None)
                while writer is None:
                    writers.append(_somebody(room, connection, f"imported {len(writers) + 1}", "annotator"))
                    writer = writers[-1] if (known[picture], writers[-1]) not in wrote else None
                there.add((known[picture], text))
                wrote.add((known[picture], writer))
                values = {"picture": known[picture], "person": writer, "text": text, "hints": "", "state": "live"}
                added = connection.execute(sentences.insert().values(**values, created=store.clock()))
                number = added.inserted_primary_key[0]  # type: ignore[index]
                for inspector in inspectors:
                    accepted = {"sentence": number, "person": inspector, "right": True, "created": store.clock()}
                    connection.execute(votes.insert().values(**accepted))
                taken += 1
        store.note(connection, None, "import", f"{taken} sentences")
    room.flush()
    return taken, len(references.keys() - known.keys())


def _somebody(room: Room, connection: Connection, name: str, role: str) -> int:
    """The person of that name, made where there is none."""
    for person in people.everybody(connection):
        if person.name == name:
            return person.id
    person, _ = people.invite(room.store, connection, name, role)
    qualify(room.store, connection, person.id)
    return person.id
