"""Another process holds the lock of an SQLite database: said as such, never as damage, and nothing is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from annotate.annotation_world import CAPTION
from annotate.conftest import SignIn
from annotate.database.test_transactions import make_together, note, noted
from captrial.annotate.database import connections
from captrial.annotate.database.schema import captions
from captrial.annotate.database.transactions import DATABASE, Store
from captrial.annotate.service import AnnotationService
from captrial.cli.app import app
from captrial.errors import BusyError, DamagedError

NOT_DAMAGED = "another process has kept the annotation database locked for 0.05 s, and it is not damaged"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.05)


@pytest.fixture
def store(directory: Path) -> Iterator[Store]:
    found = Store.in_directory(directory)
    note(found, "before")()
    yield found
    found.close()


@contextmanager
def held(directory: Path, *statements: str) -> Iterator[None]:
    """A second connection, as another process has one, that holds a lock."""
    with closing(sqlite3.connect(directory / DATABASE, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement).fetchall()
        yield
        other.rollback()


WRITING = ("BEGIN IMMEDIATE",)
ALONE = ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE")  # readers must wait, too


def test_a_change_beside_another_writer_is_refused_as_busy_and_possible_afterwards(
    store: Store, directory: Path
) -> None:
    with held(directory, *WRITING):
        assert noted(store) == ["before"]  # readers do not wait
        with pytest.raises(BusyError, match=NOT_DAMAGED):
            note(store, "meanwhile")()
        with pytest.raises(BusyError, match=NOT_DAMAGED):
            Store.in_directory(directory)
    note(store, "after")()
    assert noted(store) == ["before", "after"]


@pytest.mark.parametrize("read_only", [True, False])
def test_reading_what_another_process_has_for_itself_is_no_damage(directory: Path, read_only: bool) -> None:
    store = Store.in_directory(directory)
    note(store, "before")()
    store.close()
    with held(directory, *ALONE):
        with pytest.raises(BusyError, match=NOT_DAMAGED):
            Store.in_directory(directory, read_only=read_only)
        result = CliRunner().invoke(app, ["annotate", "status", str(directory)])
        assert isinstance(result.exception, BusyError), result.output
    again = Store.in_directory(directory, read_only=read_only)
    assert noted(again) == ["before"]
    again.close()


def test_an_open_store_tells_a_lock_from_damage(store: Store, directory: Path) -> None:
    store.close()  # its connections; the store makes new ones
    with held(directory, "PRAGMA journal_mode = DELETE", "BEGIN EXCLUSIVE"), pytest.raises(BusyError) as told:
        noted(store)
    assert NOT_DAMAGED in str(told.value)
    assert noted(store) == ["before"]
    store.close()
    content = (directory / DATABASE).read_bytes()
    (directory / DATABASE).write_bytes(content[:100] + bytes(len(content) - 100))
    with pytest.raises(DamagedError):
        noted(store)


def test_changes_that_wait_together_wait_once(store: Store, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    change = store.change
    monkeypatch.setattr(store, "change", lambda: (begun.append(None), change())[1])
    with held(directory, *WRITING):
        found = make_together(store, [note(store, name) for name in "abc"])
    assert [type(answer) for answer in found] == [BusyError] * 3
    assert len(begun) == 1
    assert noted(store) == ["before"]


def test_a_page_is_told_to_try_again_and_the_caption_is_stored_once(
    site: tuple[AnnotationService, SignIn], directory: Path
) -> None:
    service, sign_in = site
    client = sign_in("ann", "annotator")
    client.post("/api/consent", json={})
    body = {"item": client.get("/api/next/write").json()["item"], "text": CAPTION, "key": "key-00000001"}
    with held(directory, *WRITING):
        answer = client.post("/api/write", json=body)
        assert answer.status_code == 503, answer.text  # after any status from 500 common.js sends the same key again
        assert NOT_DAMAGED in answer.json()["detail"]
    for _ in range(2):
        assert client.post("/api/write", json=body).json()["taken"]
    with service.store.read() as connection:
        assert connection.execute(select(captions.c.text)).scalars().all() == [CAPTION]
