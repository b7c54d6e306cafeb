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
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from captrial.annotate.schema import leases
from captrial.annotate.store import Store

LEASE_MINUTES = 15.0


@dataclass(frozen=True, slots=True)
class Need:
    """How many more people an item needs, and how many have done it."""

    missing: int
    done: int


@dataclass(frozen=True, slots=True)
class Lease:
    """An item given to a person."""

    item: int
    started: float
    expires: float


def assign(
    store: Store,
    connection: Connection,
    round_: str,
    person: int,
    needs: Mapping[int, Need],
    minutes: float = LEASE_MINUTES,
) -> Lease | None:
    """The item this person works on: the one they hold, or the next that needs somebody; None where there is none.

    `needs` are the items that this person may do, with what they still need.
    """
    now = store.clock()
    connection.execute(leases.delete().where(leases.c.expires <= now))
    rows = connection.execute(select(leases).where(leases.c.round == round_)).all()
    mine = [row for row in rows if row.person == person]
    for row in mine:
        if row.item in needs:
            return _extend(store, connection, round_, row.item, person, row.started, minutes)
    taken: dict[int, int] = {}
    for row in rows:
        if row.person != person:
            taken[row.item] = taken.get(row.item, 0) + 1
    free = [item for item, need in needs.items() if need.missing > taken.get(item, 0)]
    if not free:
        return None
    chosen = min(free, key=lambda item: (-needs[item].done - taken.get(item, 0), _order(round_, person, item)))
    release(connection, round_, person)
    lease = Lease(chosen, now, now + 60 * minutes)
    connection.execute(
        leases.insert().values(round=round_, item=chosen, person=person, started=lease.started, expires=lease.expires)
    )
    return lease


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


def _order(round_: str, person: int, item: int) -> bytes:
    return hashlib.blake2b(f"{round_}:{person}:{item}".encode(), digest_size=8).digest()
