"""Sentences that are being written: kept as people type, gone when the sentence is submitted."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, exists, select

from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import drafts, sentences

MY_DRAFT = (drafts.c.round == "write") & (drafts.c.item == bindparam("item")) & (drafts.c.person == bindparam("person"))
_FORGET = drafts.delete().where(MY_DRAFT)
_MINE = exists().where(sentences.c.image == bindparam("item"), sentences.c.person == bindparam("person"))
_KEEP = drafts.insert().from_select(
    list(drafts.columns),
    select(*(bindparam(f"new_{column.name}", type_=column.type) for column in drafts.columns)).where(~_MINE),
)


def forget_draft(connection: Connection, person: int, item: int) -> None:
    """Drop what somebody began to write about an image."""
    connection.execute(_FORGET, {"item": item, "person": person})


def keep_draft(store: Store, connection: Connection, person: int, item: int, text: str) -> None:
    """Keep what somebody has written so far, in the place of their last draft, unless the sentence is there already."""
    mine = {"item": item, "person": person}
    draft = {"round": "write", **mine, "text": text, "saved": store.clock()}
    with store.at_once(connection):
        forget_draft(connection, person, item)
        connection.execute(_KEEP, {**mine, **{f"new_{name}": value for name, value in draft.items()}})
