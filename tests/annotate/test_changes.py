"""Changes that wait are made together: on disk before anybody hears of theirs, refused one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError

from annotate.world import SENTENCE, join
from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import audit, sentences
from captrial.annotate.database.write_queue import Changes
from captrial.annotate.service import Room
from captrial.errors import StateError


def make_together(store: Store, actions: list[Callable[[], Any]]) -> list[Any]:
    """What comes of actions that all arrive while the thread is busy: results, and what was raised."""

    async def everything() -> list[Any]:
        changes, busy, go = Changes(store), threading.Event(), threading.Event()
        waiting = [asyncio.ensure_future(changes.make(lambda: (busy.set(), go.wait())))]
        await asyncio.to_thread(busy.wait)
        waiting += [asyncio.ensure_future(changes.make(action)) for action in actions]
        await asyncio.sleep(0)  # all of them are in the queue
        go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.to_thread(changes.close)
        return found[1:]

    return asyncio.run(everything())


def commits(store: Store) -> list[object]:
    """A list that grows by one with every transaction of the store."""
    found: list[object] = []
    event.listen(store.engine, "commit", found.append)
    return found


def noted(store: Store) -> list[str]:
    with store.read() as connection:
        return list(connection.execute(select(audit.c.action).where(audit.c.detail == "test")).scalars())


def note(store: Store, action: str, error: Exception | None = None) -> Callable[[], str]:
    def made() -> str:
        with store.change() as connection:
            store.note(connection, None, action, "test")
            if error is not None:
                raise error
        return action

    return made


def test_what_waits_is_one_transaction_and_a_refusal_undoes_only_itself(room: Room) -> None:
    store = room.store
    counted = commits(store)
    actions = [note(store, "a"), note(store, "b", StateError("too late")), note(store, "c")]
    first, refused, last = make_together(store, actions)
    assert (first, last) == ("a", "c")
    assert isinstance(refused, StateError)
    assert noted(store) == ["a", "c"]
    assert len(counted) == 1


def test_something_unexpected_is_only_its_own_makers_problem(room: Room) -> None:
    store = room.store

    def twice() -> None:
        with store.change() as connection:
            row = {"name": "settings", "value": "{}"}
            for _ in range(2):
                connection.exec_driver_sql(f"INSERT INTO settings (name, value) VALUES ('{row['name']}', '{{}}')")

    first, broken, last = make_together(store, [note(store, "a"), twice, note(store, "c")])
    assert (first, last) == ("a", "c")
    assert isinstance(broken, IntegrityError)
    assert noted(store) == ["a", "c"]


def test_what_comes_afterwards_comes_when_it_is_on_disk(room: Room) -> None:
    store, seen = room.store, []

    def made() -> None:
        note(store, "a")()
        store.afterwards(lambda: seen.append(noted(store)))

    make_together(store, [made, note(store, "b")])
    assert seen == [["a", "b"]]


def test_submissions_made_together_are_as_good_as_alone(room: Room) -> None:
    writers = [join(room, f"writer {number}", "annotator")[0] for number in range(5)]
    items = [room.next("write", person)["item"] for person in writers]

    def write(place: int, key: str) -> Callable[[], Any]:
        return lambda: room.write(writers[place], items[place], f"{SENTENCE} {place}", key)

    keys = [f"key-{place:08d}" for place in range(5)]
    actions = [write(place, keys[place]) for place in range(5)] + [write(0, keys[0])]  # one is sent again
    found = make_together(room.store, actions)
    assert all(answer["taken"] for answer in found)
    with room.store.read() as connection:
        rows = connection.execute(select(sentences.c.person, sentences.c.image)).all()
    assert sorted(tuple(row) for row in rows) == sorted((p.id, item) for p, item in zip(writers, items, strict=True))


def test_nobody_waits_for_somebody_who_has_left(room: Room) -> None:
    unwanted: list[str] = []

    async def everything() -> None:
        changes, busy, go = Changes(room.store), threading.Event(), threading.Event()
        first = asyncio.ensure_future(changes.make(lambda: (busy.set(), go.wait())))
        await asyncio.to_thread(busy.wait)
        left = asyncio.ensure_future(changes.make(lambda: unwanted.append("done")))
        stays = asyncio.ensure_future(changes.make(note(room.store, "a")))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        go.set()
        assert await stays == "a"
        await first
        await asyncio.to_thread(changes.close)

    asyncio.run(everything())
    assert noted(room.store) == ["a"]
    assert not unwanted


def test_the_thread_survives_anything_and_refuses_when_closed(room: Room) -> None:
    def leave() -> None:
        raise SystemExit("somebody else's idea")

    async def everything() -> None:
        changes = Changes(room.store)
        with pytest.raises(SystemExit):
            await changes.make(leave)
        assert await changes.make(note(room.store, "still here")) == "still here"
        await asyncio.to_thread(changes.close)
        with pytest.raises(StateError, match="closing"):
            await changes.make(note(room.store, "too late"))

    asyncio.run(everything())
    assert noted(room.store) == ["still here"]
