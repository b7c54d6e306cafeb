"""Changes that wait are made together: on disk before anybody hears of theirs, refused one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError

from annotate.annotation_world import CAPTION, join, submit_caption
from captrial.annotate.database.schema import audit, captions
from captrial.annotate.database.transactions import Store, WriteQueue
from captrial.annotate.service import AnnotationService
from captrial.errors import StateError


def make_together(store: Store, actions: list[Callable[[], Any]]) -> list[Any]:
    """What comes of actions that all arrive while the thread is busy: results, and what was raised."""

    async def everything() -> list[Any]:
        queue, busy, go = WriteQueue(store), threading.Event(), threading.Event()
        waiting = [asyncio.ensure_future(queue.run(lambda: (busy.set(), go.wait())))]
        await asyncio.to_thread(busy.wait)
        waiting += [asyncio.ensure_future(queue.run(action)) for action in actions]
        await asyncio.sleep(0)  # all of them are in the queue
        go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.to_thread(queue.close)
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


def test_waiting_changes_are_one_transaction_and_a_refusal_undoes_only_itself(service: AnnotationService) -> None:
    store = service.store
    counted = commits(store)
    actions = [note(store, "a"), note(store, "b", StateError("too late")), note(store, "c")]
    first, refused, last = make_together(store, actions)
    assert (first, last) == ("a", "c")
    assert isinstance(refused, StateError)
    assert noted(store) == ["a", "c"]
    assert len(counted) == 1


def test_an_unexpected_error_fails_only_its_own_change(service: AnnotationService) -> None:
    store = service.store

    def twice() -> None:
        with store.change() as connection:
            row = {"name": "settings", "value": "{}"}
            for _ in range(2):
                connection.exec_driver_sql(f"INSERT INTO settings (name, value) VALUES ('{row['name']}', '{{}}')")

    first, broken, last = make_together(store, [note(store, "a"), twice, note(store, "c")])
    assert (first, last) == ("a", "c")
    assert isinstance(broken, IntegrityError)
    assert noted(store) == ["a", "c"]


def test_calls_after_commit_come_when_the_changes_are_on_disk(service: AnnotationService) -> None:
    store, seen = service.store, []

    def made() -> None:
        note(store, "a")()
        store.after_commit(lambda: seen.append(noted(store)))

    make_together(store, [made, note(store, "b")])
    assert seen == [["a", "b"]]


def test_submissions_in_one_transaction_are_stored_as_if_alone(service: AnnotationService) -> None:
    writers = [join(service, f"writer {number}", "annotator")[0] for number in range(5)]
    items = [service.next("write", person)["item"] for person in writers]

    def write(place: int, key: str) -> Callable[[], Any]:
        return lambda: submit_caption(service, writers[place], items[place], f"{CAPTION} {place}", key)

    keys = [f"key-{place:08d}" for place in range(5)]
    actions = [write(place, keys[place]) for place in range(5)] + [write(0, keys[0])]  # one is sent again
    found = make_together(service.store, actions)
    assert all(answer["taken"] for answer in found)
    with service.store.read() as connection:
        rows = connection.execute(select(captions.c.person, captions.c.image)).all()
    assert sorted(tuple(row) for row in rows) == sorted((p.id, item) for p, item in zip(writers, items, strict=True))


def test_a_cancelled_change_is_not_made(service: AnnotationService) -> None:
    unwanted: list[str] = []

    async def everything() -> None:
        queue, busy, go = WriteQueue(service.store), threading.Event(), threading.Event()
        first = asyncio.ensure_future(queue.run(lambda: (busy.set(), go.wait())))
        await asyncio.to_thread(busy.wait)
        left = asyncio.ensure_future(queue.run(lambda: unwanted.append("done")))
        stays = asyncio.ensure_future(queue.run(note(service.store, "a")))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        go.set()
        assert await stays == "a"
        await first
        await asyncio.to_thread(queue.close)

    asyncio.run(everything())
    assert noted(service.store) == ["a"]
    assert not unwanted


def test_the_thread_survives_anything_and_refuses_when_closed(service: AnnotationService) -> None:
    def leave() -> None:
        raise SystemExit("somebody else's idea")

    async def everything() -> None:
        queue = WriteQueue(service.store)
        with pytest.raises(SystemExit):
            await queue.run(leave)
        assert await queue.run(note(service.store, "still here")) == "still here"
        await asyncio.to_thread(queue.close)
        with pytest.raises(StateError, match="closing"):
            await queue.run(note(service.store, "too late"))

    asyncio.run(everything())
    assert noted(service.store) == ["still here"]
