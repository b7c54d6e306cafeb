"""Who does what next. Three rounds share one mechanism: items that need some number of people, and leases.

Invariants (tests/annotate/test_assignment.py runs them as a state machine):
1. A person is never given an item they have done, nor a sentence of their own to inspect.
2. An item is never given to more people than it still needs; what was done and what is leased count.
3. A lease ends after some minutes; then its place is free for somebody else, and the late person's work is taken only
   while the item still needs it.
4. No item is starved: while an item needs somebody who may do it, such a person who asks gets an item.
Items somebody has begun come first, so that pictures are finished early; among equals the order is random, and
different for every person.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, Select, Subquery, cast, func, select

from captrial.annotate.schema import leases
from captrial.annotate.store import Store

LEASE_MINUTES = 15.0
_PRIME = 2**31 - 1  # products of two smaller numbers fit into the databases' integers
Work = Select[int, int, int]  # item, missing people, people who have done it


@dataclass(frozen=True, slots=True)
class Lease:
    """An item given to a person."""

    item: int
    started: float
    expires: float


@dataclass(frozen=True, slots=True)
class Open:
    """What is left for a person: items they may do, and how much work these need from all people together."""

    items: int
    work: int


def assign(
    store: Store, connection: Connection, round_: str, person: int, work: Work, minutes: float = LEASE_MINUTES
) -> Lease | None:
    """The item this person works on: the one they hold, or the next that needs somebody; None where there is none.

    `work` selects the items that this person may do, with the number of people each still needs.
    """
    now, items = store.clock(), work.subquery()
    connection.execute(leases.delete().where(leases.c.expires <= now))
    mine = select(leases).where(leases.c.round == round_, leases.c.person == person)
    held = connection.execute(mine.where(leases.c.item.in_(select(items.c.item)))).first()
    if held is not None:
        return _extend(store, connection, round_, held.item, person, held.started, minutes)
    chosen = connection.execute(_next_item(round_, person, items)).scalar_one_or_none()
    if chosen is None:
        return None
    release(connection, round_, person)
    lease = Lease(chosen, now, now + 60 * minutes)
    connection.execute(
        leases.insert().values(round=round_, item=chosen, person=person, started=lease.started, expires=lease.expires)
    )
    return lease


def may_do(connection: Connection, work: Work) -> bool:
    """Whether `work`, selected for one item, has it."""
    return connection.execute(work.limit(1)).first() is not None


def what_is_open(connection: Connection, work: Work) -> Open:
    """How much `work` there is."""
    items = work.subquery()
    row = connection.execute(select(func.count(), func.coalesce(func.sum(items.c.missing), 0)).select_from(items)).one()
    return Open(int(row[0]), int(row[1]))


def _next_item(round_: str, person: int, items: Subquery) -> Select[int]:
    """The free item that most people have begun; among equals, by this person's own random order."""
    others = (
        select(leases.c.item, func.count().label("people"))
        .where(leases.c.round == round_, leases.c.person != person)
        .group_by(leases.c.item)
        .subquery()
    )
    taken = func.coalesce(others.c.people, 0)
    # n -> n * a mod p is a permutation of the items, another one for every a
    order = (cast(items.c.item, BigInteger) * _multiplier(round_, person)) % _PRIME
    return (
        select(items.c.item)
        .outerjoin(others, others.c.item == items.c.item)
        .where(items.c.missing > taken)
        .order_by((items.c.done + taken).desc(), order)
        .limit(1)
    )


def release(connection: Connection, round_: str, person: int, item: int | None = None) -> float | None:
    """Give up the lease on an item (or all of a round); returns when work on it started, if it was held."""
    held = (leases.c.round == round_) & (leases.c.person == person)
    if item is not None:
        held = held & (leases.c.item == item)
    started = connection.execute(select(leases.c.started).where(held)).scalars().first()
    connection.execute(leases.delete().where(held))
    return started


def _extend(
    store: Store, connection: Connection, round_: str, item: int, person: int, started: float, minutes: float
) -> Lease:
    """The same item again, with a fresh lease: whoever comes back finds their work."""
    expires = store.clock() + 60 * minutes
    held = (leases.c.round == round_) & (leases.c.person == person) & (leases.c.item == item)
    connection.execute(leases.update().where(held).values(expires=expires))
    return Lease(item, started, expires)


def _multiplier(round_: str, person: int) -> int:
    digest = hashlib.blake2b(f"{round_}:{person}".encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest) % (_PRIME - 1)
