"""The rounds of the experiment: writing, inspecting, judging. Each submission is one transaction.

What an item still needs is computed from what people did, never kept beside it: an image needs writers until enough
sentences were written and enough of them stand; a sentence needs inspectors until enough have voted or it is discarded.
The database does the counting: a request never carries more than one item out of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Subquery,
    Table,
    bindparam,
    case,
    exists,
    func,
    select,
)
from sqlalchemy.sql.dml import ReturningInsert

from captrial.annotate.assignment import ONE, Given, Items, Work, among
from captrial.annotate.database.schema import (
    duels,
    images,
    judgements,
    leases,
    refusals,
    sentences,
    votes,
)
from captrial.annotate.settings import Settings

ROLES_OF = {"write": ("annotator",), "inspect": ("inspector",), "judge": ("annotator", "inspector")}
STANDING = ("live", "discarded")  # sentences that count as written


def given(settings: Settings, person: int, item: int | None = None) -> dict[str, Any]:
    """The parameters of the statements below."""
    numbers = {"writers": settings.writers, "min_sentences": settings.min_sentences}
    return {**numbers, "inspectors": settings.inspectors, "judges": settings.judges, "person": person, **among([item])}


_PERSON, _WRITERS = (bindparam(name, type_=Integer) for name in ("person", "writers"))


@cache
def write_work(items: Items = ()) -> Work:
    """Images a person may describe, and what they need; of all, or of the given `items`."""
    counted = _sentence_counts(sentences.c.image.in_(items) if items else None)
    written, live = func.coalesce(counted.c.written, 0), func.coalesce(counted.c.live, 0)
    again = bindparam("min_sentences", type_=Integer) - live
    missing = case((written < _WRITERS, _WRITERS - written), else_=again)
    wrote = exists().where(sentences.c.image == images.c.id, sentences.c.person == _PERSON)
    refused = exists().where(refusals.c.image == images.c.id, refusals.c.person == _PERSON)
    work = (
        select(images.c.id.label("item"), missing.label("missing"), written.label("done"))
        .outerjoin(counted, counted.c.image == images.c.id)
        .where(images.c.active, ~images.c.qualification, missing > 0, ~wrote, ~refused)
    )
    return work.where(images.c.id.in_(items)) if items else work


@cache
def inspect_work(items: Items = ()) -> Work:
    """Sentences a person may inspect: live, not their own, of images whose writing is done."""
    theirs = sentences.alias()
    its_image = sentences.c.image.in_(select(theirs.c.image).where(theirs.c.id.in_(items))) if items else None
    counted, cast = _sentence_counts(its_image), _people_on(votes, votes.c.sentence, items)
    number, wanted = func.coalesce(cast.c.people, 0), bindparam("inspectors", type_=Integer)
    voted = exists().where(votes.c.sentence == sentences.c.id, votes.c.person == _PERSON)
    work = (
        select(sentences.c.id.label("item"), (wanted - number).label("missing"), number.label("done"))
        .join(images, images.c.id == sentences.c.image)
        .join(counted, counted.c.image == sentences.c.image)
        .outerjoin(cast, cast.c.item == sentences.c.id)
        .where(images.c.active, sentences.c.state == "live", sentences.c.person != _PERSON)
        .where(counted.c.written >= _WRITERS, number < wanted, ~voted)
    )
    return work.where(sentences.c.id.in_(items)) if items else work


@cache
def judge_work(items: Items = ()) -> Work:
    """Pairs of captions a person may compare."""
    cast = _people_on(judgements, judgements.c.duel, items)
    number, wanted = func.coalesce(cast.c.people, 0), bindparam("judges", type_=Integer)
    judged = exists().where(judgements.c.duel == duels.c.id, judgements.c.person == _PERSON)
    work = (
        select(duels.c.id.label("item"), (wanted - number).label("missing"), number.label("done"))
        .join(images, images.c.id == duels.c.image)
        .outerjoin(cast, cast.c.item == duels.c.id)
        .where(images.c.active, number < wanted, ~judged)
    )
    return work.where(duels.c.id.in_(items)) if items else work


WORK = {"write": write_work, "inspect": inspect_work, "judge": judge_work}


def _sentence_counts(condition: ColumnElement[bool] | None) -> Subquery:
    """Of every image, or of those meant: how many sentences were written, and how many of them are live."""
    counted = select(
        sentences.c.image,
        func.sum(case((sentences.c.state.in_(STANDING), 1), else_=0)).label("written"),
        func.sum(case((sentences.c.state == "live", 1), else_=0)).label("live"),
    ).group_by(sentences.c.image)
    return (counted if condition is None else counted.where(condition)).subquery()


def _people_on(table: Table, item: Column[int], items: Items) -> Subquery:
    """How many people have done each item, or the given ones."""
    counted = select(item.label("item"), func.count().label("people")).select_from(table).group_by(item)
    return (counted.where(item.in_(items)) if items else counted).subquery()


def take(connection: Connection, round_: str, table: Table, row: Mapping[str, Any], given: Given) -> bool:
    """Insert a person's row about the given item, if the item still needs it from them; returns whether it did.

    `given` has the round and the time besides: whose lease has ended does not take the place of somebody who holds one.
    """
    new = {f"new_{column.name}": row[column.name] for column in _own_columns(table)}
    return connection.execute(_taking(round_, table), {**given, **new}).first() is not None


@cache
def _taking(round_: str, table: Table) -> ReturningInsert[int]:
    needed = WORK[round_](ONE).subquery()
    columns = _own_columns(table)
    held = (leases.c.round == bindparam("round")) & (leases.c.item == needed.c.item)
    held &= leases.c.expires > bindparam("now", type_=Float)
    others = select(func.count()).select_from(leases).where(held, leases.c.person != _PERSON).scalar_subquery()
    mine = exists().where(held, leases.c.person == _PERSON)
    values = select(*(bindparam(f"new_{column.name}", type_=column.type) for column in columns)).select_from(needed)
    values = values.where(mine | (needed.c.missing > others))
    return table.insert().from_select(columns, values).returning(table.c.person)


def _own_columns(table: Table) -> list[Column[Any]]:
    """All but a number that the database gives."""
    return [column for column in table.columns if column.foreign_keys or not column.primary_key]


def discard_if_wrong(connection: Connection, settings: Settings, sentence: int) -> None:
    """Discard a sentence that enough inspectors called wrong."""
    wrong = connection.execute(
        select(func.count()).select_from(votes).where(votes.c.sentence == sentence, ~votes.c.right)
    ).scalar_one()
    if wrong >= settings.discards:
        connection.execute(sentences.update().where(sentences.c.id == sentence).values(state="discarded"))


def indescribable(connection: Connection, settings: Settings) -> list[str]:
    """Images that enough people could not describe."""
    rows = connection.execute(
        select(images.c.image)
        .join(refusals, refusals.c.image == images.c.id)
        .group_by(images.c.image)
        .having(func.count() >= settings.refusals)
    )
    return sorted(rows.scalars())


def accepted(connection: Connection, settings: Settings) -> dict[str, list[str]]:
    """Sentences that stand: live, and inspected by enough people (or by nobody, where that round is skipped)."""
    cast = select(func.count()).select_from(votes).where(votes.c.sentence == sentences.c.id).scalar_subquery()
    rows = connection.execute(
        select(sentences.c.text, images.c.image)
        .join(images, images.c.id == sentences.c.image)
        .where(sentences.c.state == "live", images.c.active, cast >= settings.inspectors)
        .order_by(images.c.image, sentences.c.id)
    )
    found: dict[str, list[str]] = defaultdict(list)
    for text, image in rows:
        found[image].append(text)
    return dict(found)
