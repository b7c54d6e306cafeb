"""Who does what next. Three rounds share one mechanism: items that need some number of people, and leases.

Invariants (tests/annotate/test_assignment.py runs them as a state machine):
1. A person is never given an item they have done, nor a sentence of their own to inspect.
2. An item is never given to more people than it still needs; what was done and what is leased count.
3. A lease ends after some minutes; then its place is free for somebody else, and the late person's work is taken only
   while the item still needs it.
4. No item is starved: while an item needs somebody who may do it, such a person who asks gets an item.
Items somebody has begun come first, so that images are finished early; among equals the order is random, and
different for every person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Float,
    Integer,
    Select,
    String,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.sql.dml import ReturningInsert

from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import leases

QUEUE = 16  # few, since what others begin meanwhile should come first
_PRIME = 2**31 - 1  # products of two smaller numbers fit into the databases' integers
Work = Select[int, int, int]  # item, missing people, people who have done it
Items = tuple[BindParameter[int], ...]  # parameters that hold the items meant; none: all items
FEW: Items = tuple(bindparam(f"item_{place}", type_=Integer) for place in range(QUEUE))
ONE: Items = FEW[:1]
Given = Mapping[str, Any]  # values of a statement's parameters


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
    store: Store,
    connection: Connection,
    round_: str,
    work: Callable[[Items], Work],
    given: Given,
    minutes: float,
    queue: list[int],
    free: bool = False,
) -> Lease | None:
    """The item this person works on: the one they hold, or the next that needs somebody; None where there is none.

    `work(items)` selects those of the items, or of all, that the person may do, with the number of people each still
    needs. It takes what is `given`: the person, and the numbers of the settings. `queue` keeps items that the person
    may get next from one call to the next, so that not every call has to look at all items; with `free` it is known
    that they hold none.
    """
    now, person = store.clock(), given["person"]
    held = [] if free else connection.execute(_MINE, {"of_round": round_, "of_person": person}).all()
    for row in held:
        if row.expires > now and may_do(connection, work(ONE), {**given, **among([row.item])}):
            lease = Lease(row.item, row.started, now + 60 * minutes)
            connection.execute(_EXTEND, {**_held(round_, person, row.item), "new": lease.expires})
            return lease
    if held:
        release_all(connection, round_, person)
    until = now + 60 * minutes
    given = {**given, "round": round_, "now": now, "until": until, "multiplier": _multiplier(round_, person)}
    chosen = _take_first(connection, work, given, queue)
    return None if chosen is None else Lease(chosen, now, until)


def release(connection: Connection, round_: str, person: int, item: int) -> None:
    """Give up the lease on an item."""
    connection.execute(_RELEASE_ONE, _held(round_, person, item))


def release_all(connection: Connection, round_: str, person: int) -> None:
    """Give up whatever this person holds in a round."""
    connection.execute(_RELEASE, {"of_round": round_, "of_person": person})


def among(items: Sequence[int | None]) -> dict[str, int]:
    """The given items, as parameters of statements about `ONE` or a `FEW`."""
    return {f"item_{place}": item or 0 for place, item in zip_longest(range(QUEUE), items)}


def may_do(connection: Connection, one: Work, given: Given) -> bool:
    """Whether the person may do the item, and it still needs somebody."""
    return connection.execute(one, given).first() is not None


def what_is_open(connection: Connection, work: Work, given: Given) -> Open:
    """How much `work` there is."""
    row = connection.execute(_summed(work), given).one()
    return Open(int(row[0]), int(row[1]))


def _held(round_: str, person: int, item: int) -> Given:
    return {"of_round": round_, "of_person": person, "of_item": item}


# Statements are built once: building them costs more than running most of them.
_OF_PERSON = (leases.c.round == bindparam("of_round")) & (leases.c.person == bindparam("of_person"))
_HELD = _OF_PERSON & (leases.c.item == bindparam("of_item"))
_MINE = select(leases.c.item, leases.c.started, leases.c.expires).where(_OF_PERSON)
_EXTEND = leases.update().where(_HELD).values(expires=bindparam("new"))
_RELEASE = leases.delete().where(_OF_PERSON)
_RELEASE_ONE = leases.delete().where(_HELD)


def _take_first(connection: Connection, work: Callable[[Items], Work], given: Given, queue: list[int]) -> int | None:
    """Take the best item of the queue that is still free; where none is, of a new queue."""
    for _ in range(2):
        if queue:
            taken = connection.execute(_take(work(FEW)), {**given, **among(queue)}).scalar_one_or_none()
            if taken is not None:
                queue.remove(taken)
                return int(taken)
        queue[:] = connection.execute(_best(work(()), QUEUE), given).scalars()
        if not queue:
            return None
    raise AssertionError("somebody else changes the database meanwhile")


@cache
def _take(few: Work) -> ReturningInsert[int]:
    """A lease on the best of the given items that are free."""
    free = _best(few, 1).subquery()
    new = [bindparam("round", type_=String), free.c.item, bindparam("person", type_=Integer)]
    new += [bindparam("now", type_=Float), bindparam("until", type_=Float)]
    taken = leases.insert().from_select(["round", "item", "person", "started", "expires"], select(*new))
    return taken.returning(leases.c.item)


@cache
def _best(work: Work, count: int) -> Select[int]:
    """The free items that most people have begun; among equals, by this person's own random order."""
    items = work.subquery()
    # looked up item by item: a join would leave it to PostgreSQL's statistics, which know nothing of minutes
    taken = (
        select(func.count())
        .select_from(leases)
        .where(leases.c.round == bindparam("round"), leases.c.item == items.c.item)
        .where(leases.c.person != bindparam("person"), leases.c.expires > bindparam("now"))
        .scalar_subquery()
    )
    # n -> n * a mod p is a permutation of the items, another one for every a
    order = (cast(items.c.item, BigInteger) * bindparam("multiplier", type_=BigInteger)) % _PRIME
    free = select(items.c.item).where(items.c.missing > taken)
    return free.order_by((items.c.done + taken).desc(), order).limit(count)


@cache
def _summed(work: Work) -> Select[int, int]:
    items = work.subquery()
    return select(func.count(), func.coalesce(func.sum(items.c.missing), 0)).select_from(items)


@cache
def _multiplier(round_: str, person: int) -> int:
    digest = hashlib.blake2b(f"{round_}:{person}".encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest) % (_PRIME - 1)
