"""Which item a person works on next. All rounds share this: items that need some number of people, and leases.

Invariants (tests/annotate/rounds/test_assignment.py checks them as a state machine):
1. A person is never given an item they have done, nor their own caption to inspect.
2. An item is never given to more people than it still needs, counting answers and leases.
3. A lease expires after some minutes. Then the item can go to somebody else, and a late answer is accepted only while
   the item still needs it.
4. No item is starved: while an item needs somebody who may do it, such a person who asks gets an item.
Items that somebody has begun come first, so that images are finished early. Among equals the order is random, and
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

from captrial.annotate.database.schema import leases
from captrial.annotate.database.transactions import Store

QUEUE = 16  # few, because items that others begin meanwhile should come first
_PRIME = 2**31 - 1  # products of two smaller numbers fit into the databases' integers
Work = Select[int, int, int]  # item, missing people, people who have done it
Items = tuple[BindParameter[int], ...]  # parameters for the items in question; an empty tuple means all items
FEW: Items = tuple(bindparam(f"item_{place}", type_=Integer) for place in range(QUEUE))
ONE: Items = FEW[:1]
Values = Mapping[str, Any]  # of a statement's parameters


@dataclass(frozen=True, slots=True)
class Lease:
    """An item given to a person."""

    item: int
    started: float
    expires: float


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What is left for a person: items they may do, and how many answers these need from all people together."""

    items: int
    answers: int


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """Somebody asks for an item of a round.

    `work(items)` selects those of the items, or of all, that the person may do, with the number of people each still
    needs. `values` are its parameters: the person, and the numbers of the settings.
    """

    round: str
    work: Callable[[Items], Work]
    values: Values
    lease_minutes: float

    @property
    def person(self) -> int:
        """The id of the person."""
        return int(self.values["person"])


def assign(
    store: Store, connection: Connection, request: AssignmentRequest, queue: list[int], has_lease: bool = True
) -> Lease | None:
    """Lease an item to a person: the one they have, or the next that needs somebody; None where there is none.

    `queue` keeps items that the person may get next from one call to the next, so that not every call has to consider
    all items. With `has_lease=False` it is known that the person holds none.
    """
    now, person, round_ = store.clock(), request.person, request.round
    expires = now + 60 * request.lease_minutes
    held = connection.execute(_LEASES, {"of_round": round_, "of_person": person}).all() if has_lease else []
    for row in held:
        if row.expires > now and may_do(connection, request.work(ONE), {**request.values, **item_values([row.item])}):
            connection.execute(_EXTEND, {**_lease_values(round_, person, row.item), "new": expires})
            return Lease(row.item, row.started, expires)
    if held:
        release_all(connection, round_, person)
    times = {"now": now, "until": expires, "multiplier": _multiplier(round_, person)}
    item = _lease_first(connection, request.work, {**request.values, "round": round_, **times}, queue)
    return None if item is None else Lease(item, now, expires)


def release(connection: Connection, round_: str, person: int, item: int) -> None:
    """End the lease on an item."""
    connection.execute(_RELEASE_ONE, _lease_values(round_, person, item))


def release_all(connection: Connection, round_: str, person: int) -> None:
    """End all leases of this person in a round."""
    connection.execute(_RELEASE, {"of_round": round_, "of_person": person})


def item_values(items: Sequence[int | None]) -> dict[str, int]:
    """Values of the parameters `ONE` or `FEW`."""
    return {f"item_{place}": item or 0 for place, item in zip_longest(range(QUEUE), items)}


def may_do(connection: Connection, one: Work, values: Values) -> bool:
    """Whether the person may do the item, and it still needs somebody."""
    return connection.execute(one, values).first() is not None


def open_work(connection: Connection, work: Work, values: Values) -> OpenWork:
    """Count the items of `work`, and the answers they still need."""
    row = connection.execute(_counts(work), values).one()
    return OpenWork(int(row[0]), int(row[1]))


def _lease_values(round_: str, person: int, item: int) -> Values:
    return {"of_round": round_, "of_person": person, "of_item": item}


# Statements are built once: building them costs more than running most of them.
_OF_PERSON = (leases.c.round == bindparam("of_round")) & (leases.c.person == bindparam("of_person"))
_LEASE = _OF_PERSON & (leases.c.item == bindparam("of_item"))
_LEASES = select(leases.c.item, leases.c.started, leases.c.expires).where(_OF_PERSON)
_EXTEND = leases.update().where(_LEASE).values(expires=bindparam("new"))
_RELEASE = leases.delete().where(_OF_PERSON)
_RELEASE_ONE = leases.delete().where(_LEASE)


def _lease_first(connection: Connection, work: Callable[[Items], Work], values: Values, queue: list[int]) -> int | None:
    """Lease the best item of the queue that is still free; where none is, of a new queue."""
    for _ in range(2):
        if queue:
            taken = connection.execute(
                _lease_statement(work(FEW)), {**values, **item_values(queue)}
            ).scalar_one_or_none()
            if taken is not None:
                queue.remove(taken)
                return int(taken)
        queue[:] = connection.execute(_best(work(()), QUEUE), values).scalars()
        if not queue:
            return None
    raise AssertionError("the database was changed during a transaction")


@cache
def _lease_statement(few: Work) -> ReturningInsert[int]:
    """Insert a lease on the best of these items that is free."""
    free = _best(few, 1).subquery()
    new = [bindparam("round", type_=String), free.c.item, bindparam("person", type_=Integer)]
    new += [bindparam("now", type_=Float), bindparam("until", type_=Float)]
    taken = leases.insert().from_select(["round", "item", "person", "started", "expires"], select(*new))
    return taken.returning(leases.c.item)


@cache
def _best(work: Work, count: int) -> Select[int]:
    """The free items that most people have begun; among equals, in the random order of this person."""
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
def _counts(work: Work) -> Select[int, int]:
    items = work.subquery()
    return select(func.count(), func.coalesce(func.sum(items.c.missing), 0)).select_from(items)


@cache
def _multiplier(round_: str, person: int) -> int:
    digest = hashlib.blake2b(f"{round_}:{person}".encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest) % (_PRIME - 1)
