"""What comes out: `references.jsonl` and `judgements.jsonl` for the competition, always current, and exports.

The files are derived from the database and written whole, so they can be made again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, select

from captrial.annotate.database.schema import (
    audit,
    duels,
    images,
    judgements,
    people,
    sentences,
    votes,
)
from captrial.annotate.rounds.rounds import accepted, indescribable
from captrial.annotate.settings import Settings
from captrial.errors import InputError
from captrial.files import atomic_write, csv_table

REFERENCES, JUDGEMENTS = "references.jsonl", "judgements.jsonl"


def write_outcome(connection: Connection, settings: Settings, directory: Path) -> None:
    """Bring both files up to date."""
    lines: list[dict[str, Any]] = [
        {"id": image, "captions": captions} for image, captions in accepted(connection, settings).items()
    ]
    lines += [{"id": image, "indescribable": True} for image in indescribable(connection, settings)]
    _write_lines(directory / REFERENCES, lines)
    if settings.judges:
        _write_lines(directory / JUDGEMENTS, judged(connection))


def judged(connection: Connection) -> list[dict[str, Any]]:
    """Every judgement, as `compete` reads them."""
    names = {"first": "a", "second": "b", "tie": "tie"}
    rows = connection.execute(
        select(images.c.image, duels.c.first, duels.c.second, judgements.c.winner)
        .join(duels, duels.c.image == images.c.id)
        .join(judgements, judgements.c.duel == duels.c.id)
        .order_by(images.c.image, duels.c.id, judgements.c.person)
    )
    return [{"id": row.image, "a": row.first, "b": row.second, "winner": names[row.winner]} for row in rows]


def export(connection: Connection, settings: Settings, form: str, names: bool = False) -> tuple[bytes, str]:
    """The references (coco, jsonl, csv), all sentences with votes (sentences), or the audit log; and a file name.

    People are numbers everywhere, unless the lead wants the `names` of those who wrote and did things.
    """
    makers: dict[str, tuple[Callable[[], bytes], str]] = {
        "coco": (lambda: _coco(accepted(connection, settings)), "references.json"),
        "jsonl": (lambda: _jsonl(accepted(connection, settings)), "references.jsonl"),
        "csv": (lambda: _csv(accepted(connection, settings)), "references.csv"),
        "sentences": (lambda: _sentences(connection, names), "sentences.csv"),
        "audit": (lambda: _audit(connection, names), "audit.csv"),
    }
    if form not in makers:
        raise InputError(f"no export {form!r}; there are: {', '.join(makers)}")
    make, name = makers[form]
    return make(), name


def _coco(references: dict[str, list[str]]) -> bytes:
    """COCO captions: ids that are numbers stay numbers."""
    images = [{"id": _number(image), "file_name": image} for image in references]
    flat = [(image, caption) for image, captions in references.items() for caption in captions]
    annotations = [
        {"id": number, "image_id": _number(image), "caption": caption}
        for number, (image, caption) in enumerate(flat, 1)
    ]
    return orjson.dumps({"images": images, "annotations": annotations}, option=orjson.OPT_INDENT_2)


def _jsonl(references: dict[str, list[str]]) -> bytes:
    lines = ({"id": image, "captions": captions} for image, captions in references.items())
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def _csv(references: dict[str, list[str]]) -> bytes:
    return csv_table(["id", "caption"], [(p, caption) for p, captions in references.items() for caption in captions])


def _sentences(connection: Connection, names: bool) -> bytes:
    who = _who(connection, names)
    cast: dict[int, list[str]] = {}
    for row in connection.execute(select(votes).order_by(votes.c.created)):
        said = ("right" if row.right else "wrong") + (f": {row.reason}" if row.reason else "")
        cast.setdefault(row.sentence, []).append(said)
    rows = connection.execute(
        select(sentences, images.c.image.label("name"))
        .join(images, images.c.id == sentences.c.image)
        .order_by(sentences.c.id)
    )
    table = [
        (row.name, who.get(row.person, row.person), row.text, row.state, row.seconds, " | ".join(cast.get(row.id, [])))
        for row in rows
    ]
    return csv_table(["id", "person", "sentence", "state", "seconds", "votes"], table)


def _audit(connection: Connection, names: bool) -> bytes:
    who = _who(connection, names)
    rows = connection.execute(select(audit).order_by(audit.c.id))
    return csv_table(
        ["at", "person", "action", "detail"],
        [(row.at, who.get(row.person, row.person), row.action, row.detail) for row in rows],
    )


def _who(connection: Connection, names: bool) -> dict[int, str]:
    """Names by number, where they are wanted."""
    return {row.id: row.name for row in connection.execute(select(people.c.id, people.c.name))} if names else {}


def _number(image: str) -> int | str:
    return int(image) if image.isascii() and image.isdigit() and str(int(image)) == image else image


def _write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    if not path.exists() or path.read_bytes() != content:
        atomic_write(path, content)
