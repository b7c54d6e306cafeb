"""Databases of earlier and later versions."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, select

from annotate.annotation_world import CAPTION
from captrial.annotate import accounts
from captrial.annotate.database import schema
from captrial.annotate.database.schema import images
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.judge_round import swapped
from captrial.annotate.settings import read_settings
from captrial.errors import MismatchError


def test_a_database_of_the_first_version_is_brought_up_to_date(database: str) -> None:
    store = Store(database)
    with store.change() as connection:
        person, _ = accounts.invite(store, connection, "ann", "annotator")
        connection.execute(images.insert().values(id=7, image="p7.png", active=True, qualification=False))
        caption = {"image": 7, "person": person.id, "text": CAPTION, "state": "live", "created": 1.0}
        connection.execute(schema.captions.insert().values(**caption))
        store.set_setting(connection, "settings", {"writers": 5, "min_sentences": 4})
        connection.exec_driver_sql("ALTER TABLE receipts DROP COLUMN subject")
        connection.exec_driver_sql("DROP TABLE sessions")
        connection.exec_driver_sql("ALTER TABLE receipts ADD COLUMN answer TEXT NOT NULL DEFAULT '{}'")
        connection.exec_driver_sql(f"INSERT INTO receipts VALUES ({person.id}, 'an-old-key', 1.0, '{{}}')")
        _name_positions(connection)
        for table, old, new in schema.RENAMED_COLUMNS:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}")
        for old, new in schema.RENAMED_TABLES.items():
            connection.exec_driver_sql(f"ALTER TABLE {new} RENAME TO {old}")
        connection.execute(schema.schema_version.update().values(version=1))
    store.close()
    for _ in range(2):  # a column cannot be dropped twice
        store = Store(database)
        with store.change() as connection:
            assert connection.execute(select(schema.receipts.c.key)).scalars().all() == ["an-old-key"]
            assert connection.execute(select(schema.schema_version.c.version)).scalar_one() == schema.VERSION
            assert connection.execute(select(schema.captions.c.image, schema.captions.c.text)).all() == [(7, CAPTION)]
            kept = read_settings(store, connection)
        assert (kept.writers, kept.min_captions) == (5, 4)
        store.close()


def _name_positions(connection: Connection) -> None:
    """The columns of judgements as they were until version 4."""
    connection.exec_driver_sql("ALTER TABLE judgements DROP COLUMN preferred")
    connection.exec_driver_sql('ALTER TABLE judgements DROP COLUMN "left"')
    connection.exec_driver_sql("ALTER TABLE judgements ADD COLUMN winner VARCHAR(8) NOT NULL DEFAULT 'tie'")


def test_judgements_that_named_positions_name_models(database: str) -> None:
    """Models are called first, second, a and b; who was on the left is what the page showed then."""
    store = Store(database)
    with store.change() as connection:
        people = [accounts.invite(store, connection, name, "annotator")[0].id for name in ("ann", "ben", "cem")]
        connection.execute(images.insert().values(id=7, image="p7.png", active=True, qualification=False))
        for number, models in enumerate([("a", "b"), ("b", "a"), ("second", "first")], 1):
            pair = {"id": number, "image": 7, "first": models[0], "second": models[1]}
            connection.execute(schema.caption_pairs.insert().values(**pair))
        _name_positions(connection)
        winners = ("first", "second", "tie")
        for number in (1, 2, 3):
            for person, winner in zip(people, winners, strict=True):
                connection.exec_driver_sql(
                    f"INSERT INTO judgements (pair, person, winner, created) VALUES ({number}, {person}, '{winner}', 1)"
                )
        connection.exec_driver_sql("ALTER TABLE receipts DROP COLUMN subject")
        connection.execute(schema.schema_version.update().values(version=3))
    store.close()
    store = Store(database)
    with store.read() as connection:
        rows = connection.execute(select(schema.judgements, schema.caption_pairs).join(schema.caption_pairs)).all()
    store.close()
    assert len(rows) == 9
    for row in rows:
        expected = {people[0]: row.first, people[1]: row.second, people[2]: None}
        assert row.preferred == expected[row.person]
        assert row.left == (row.second if swapped(row.pair, row.person) else row.first)
    assert len({(row.pair, row.left) for row in rows}) > 3  # some were shown in either order


def test_a_database_of_a_later_version_is_refused(database: str) -> None:
    store = Store(database)
    with store.change() as connection:
        connection.execute(schema.schema_version.update().values(version=schema.VERSION + 1))
    store.close()
    with pytest.raises(MismatchError, match="newer captrial"):
        Store(database)
