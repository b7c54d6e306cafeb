"""Exports for the lead, and the import of references from other sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import orjson
from sqlalchemy import Connection, select

from captrial.annotate import accounts
from captrial.annotate.database.schema import audit, captions, images, people, votes
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.write import MAX_CAPTION, accepted_captions
from captrial.annotate.settings import AnnotationSettings, read_settings
from captrial.data.image_ids import ImageIds
from captrial.errors import InputError
from captrial.files import csv_table

MakeExport = Callable[[Connection, AnnotationSettings, bool], bytes]  # the last: with people's names


@dataclass(frozen=True, slots=True)
class Export:
    """A file that the lead can download."""

    title: str
    file_name: str
    make: MakeExport
    has_names: bool = False  # whether people can be named in it


def export(connection: Connection, settings: AnnotationSettings, form: str, names: bool = False) -> tuple[bytes, str]:
    """Content and file name of one of `EXPORTS`. People are numbers, unless the lead asks for their `names`."""
    if form not in EXPORTS:
        raise InputError(f"there is no export {form!r}; the exports are: {', '.join(EXPORTS)}")
    found = EXPORTS[form]
    return found.make(connection, settings, names), found.file_name


def _references(form: Callable[[dict[str, list[str]]], bytes]) -> MakeExport:
    return lambda connection, settings, _: form(accepted_captions(connection, settings))


def _coco(references: dict[str, list[str]]) -> bytes:
    """COCO captions; ids that are numbers stay numbers."""
    entries = [{"id": _number(image), "file_name": image} for image in references]
    flat = [(image, caption) for image, texts in references.items() for caption in texts]
    annotations = [
        {"id": number, "image_id": _number(image), "caption": caption}
        for number, (image, caption) in enumerate(flat, 1)
    ]
    return orjson.dumps({"images": entries, "annotations": annotations}, option=orjson.OPT_INDENT_2)


def _jsonl(references: dict[str, list[str]]) -> bytes:
    lines = ({"id": image, "captions": texts} for image, texts in references.items())
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def _csv(references: dict[str, list[str]]) -> bytes:
    return csv_table(["id", "caption"], [(image, caption) for image, texts in references.items() for caption in texts])


def _captions(connection: Connection, _: AnnotationSettings, names: bool) -> bytes:
    person_names = _names(connection, names)
    cast: dict[int, list[str]] = {}
    for row in connection.execute(select(votes).order_by(votes.c.created)):
        vote = ("right" if row.right else "wrong") + (f": {row.reason}" if row.reason else "")
        cast.setdefault(row.caption, []).append(vote)
    rows = connection.execute(
        select(captions, images.c.image.label("name"))
        .join(images, images.c.id == captions.c.image)
        .order_by(captions.c.id)
    )
    table = [
        (
            row.name,
            person_names.get(row.person, row.person),
            row.text,
            row.state,
            row.seconds,
            " | ".join(cast.get(row.id, [])),
        )
        for row in rows
    ]
    return csv_table(["id", "person", "caption", "state", "seconds", "votes"], table)


def _audit(connection: Connection, _: AnnotationSettings, names: bool) -> bytes:
    person_names = _names(connection, names)
    rows = connection.execute(select(audit).order_by(audit.c.id))
    return csv_table(
        ["at", "person", "action", "detail"],
        [(row.at, person_names.get(row.person, row.person), row.action, row.detail) for row in rows],
    )


def _names(connection: Connection, wanted: bool) -> dict[int, str]:
    """Names by number, where they are wanted."""
    return {row.id: row.name for row in connection.execute(select(people.c.id, people.c.name))} if wanted else {}


def _number(image: str) -> int | str:
    return int(image) if image.isascii() and image.isdigit() and str(int(image)) == image else image


EXPORTS: dict[str, Export] = {
    "coco": Export("References (COCO JSON)", "references.json", _references(_coco)),
    "jsonl": Export("References (JSONL)", "references.jsonl", _references(_jsonl)),
    "csv": Export("References (CSV)", "references.csv", _references(_csv)),
    "captions": Export("All captions and votes", "captions.csv", _captions, has_names=True),
    "audit": Export("Audit log", "audit.csv", _audit, has_names=True),
}


# Import --------------------------------------------------------------------------------------------------------------


def import_references(store: Store, references: Mapping[str, Sequence[str]]) -> ImportResult:
    """Store references of active images as if annotators had written them here and inspectors had accepted them.

    Each caption of an image is written by another made-up person, because nobody describes an image twice. A caption
    that is already there is skipped. Ids of another spelling are matched (see `captrial.data.image_ids`).
    """
    with store.change() as connection:
        active = select(images.c.id, images.c.image).where(images.c.active, ~images.c.qualification)
        numbers = {row.image: row.id for row in connection.execute(active)}
        matched = ImageIds(numbers).match(references)
        importer = _Importer(store, connection)
        stored = 0
        for given, image in sorted(matched.known.items()):
            for caption in references[given]:
                text = accounts.clean(caption, MAX_CAPTION, f"a caption of {image}")
                stored += importer.store_caption(numbers[image], text)
        store.note(connection, None, "import", f"{stored} captions")
    return ImportResult(stored, len(references) - len(matched.known), matched.report())


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many captions were stored, how many images are not in the competition, and how ids were matched."""

    stored: int
    unknown: int
    matched: str


class _Importer:
    """Stores captions and votes in the names of made-up people."""

    def __init__(self, store: Store, connection: Connection) -> None:
        self.store, self.connection = store, connection
        self.known = {person.name: person.id for person in accounts.all_people(connection)}
        rows = connection.execute(select(captions.c.image, captions.c.text, captions.c.person)).all()
        self.texts = {(row.image, row.text) for row in rows}
        self.wrote = {(row.image, row.person) for row in rows}
        wanted = range(1, read_settings(store, connection).inspectors + 1)
        self.inspectors = [self._person(f"import inspector {number}", "inspector") for number in wanted]

    def store_caption(self, image: int, text: str) -> bool:
        """Store a caption that every inspector accepts; False where the image has it already."""
        if (image, text) in self.texts:
            return False
        writer = self._writer(image)
        self.texts.add((image, text))
        self.wrote.add((image, writer))
        now = self.store.clock()
        caption = {"image": image, "person": writer, "text": text, "hints": "", "state": "live", "created": now}
        added = captions.insert().values(**caption).returning(captions.c.id)
        number = self.connection.execute(added).scalar_one()
        vote = {"caption": number, "right": True, "created": now}
        for inspector in self.inspectors:
            self.connection.execute(votes.insert().values(**vote, person=inspector))
        return True

    def _writer(self, image: int) -> int:
        """A made-up person who has not described the image."""
        writers = (self._person(f"imported {number}", "annotator") for number in count(1))
        return next(writer for writer in writers if (image, writer) not in self.wrote)

    def _person(self, name: str, role: str) -> int:
        """The person of that name, added where there is none."""
        if name not in self.known:
            person, _ = accounts.invite(self.store, self.connection, name, role)
            accounts.qualify(self.store, self.connection, person.id)
            self.known[name] = person.id
        return self.known[name]
