"""Accounts: a lead invites by link; roles say what a person may do. Tokens and passwords are stored as hashes only."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy import Connection, Row, bindparam, select

from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import (
    drafts,
    judgements,
    leases,
    people,
    receipts,
    refusals,
    sentences,
    trials,
    votes,
)
from captrial.errors import InputError

ROLES = ("lead", "annotator", "inspector")
MAX_NAME = 80
MIN_PASSWORD, MAX_PASSWORD = 10, 200
_BY_ID = select(people).where(people.c.id == bindparam("person"), people.c.removed.is_(None))
_hasher = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who takes part."""

    id: int
    name: str
    role: str
    consented: bool
    qualified: bool


def invite(store: Store, connection: Connection, name: str, role: str, by: int | None = None) -> tuple[Person, str]:
    """A new person and the token of their invitation link; the token is not stored and cannot be shown again."""
    name = clean(name, MAX_NAME, "a name")
    if role not in ROLES:
        raise InputError(f"no role {role!r}; there are: {', '.join(ROLES)}")
    token = secrets.token_urlsafe(32)
    row = {"name": name, "role": role, "invitation": _hashed(token), "created": store.clock()}
    number: int = connection.execute(people.insert().values(**row).returning(people.c.id)).scalar_one()
    store.note(connection, by, "invite", f"person {number} as {role}")
    return Person(number, name, role, False, False), token


def renew_invitation(store: Store, connection: Connection, person: int, by: int | None) -> str:
    """A new link for somebody who lost theirs; the old one stops working."""
    token = secrets.token_urlsafe(32)
    connection.execute(people.update().where(people.c.id == person).values(invitation=_hashed(token)))
    store.note(connection, by, "renew invitation", f"person {person}")
    return token


def by_token(connection: Connection, token: str) -> Person | None:
    """The person an invitation link belongs to."""
    asked = select(people).where(people.c.invitation == _hashed(token), people.c.removed.is_(None))
    row = connection.execute(asked).one_or_none()
    return None if row is None else _person(row)


def by_id(connection: Connection, person: int) -> Person | None:
    """A person who has not been removed."""
    row = connection.execute(_BY_ID, {"person": person}).one_or_none()
    return None if row is None else _person(row)


def by_password(connection: Connection, name: str, password: str) -> Person | None:
    """The person with this name and password."""
    rows = connection.execute(select(people.c.id, people.c.password).where(people.c.name == name))
    for number, hashed in [tuple(row) for row in rows] or [(0, None)]:
        try:
            if _hasher.verify(hashed or _nobody(), password) and hashed:
                return by_id(connection, number)
        except (VerifyMismatchError, InvalidHashError):
            continue
    return None


def set_password(store: Store, person: int, password: str) -> None:
    """Choose a password, so that the link is not needed to come back."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise InputError(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")
    hashed = _hasher.hash(password)  # slow on purpose, so not while others wait to change something
    with store.change() as connection:
        connection.execute(people.update().where(people.c.id == person).values(password=hashed))


def consent(store: Store, connection: Connection, person: int) -> None:
    """The person has read what happens with their work and agreed."""
    connection.execute(people.update().where(people.c.id == person).values(consented=store.clock()))
    store.note(connection, person, "consent")


def everybody(connection: Connection) -> list[Person]:
    """All people who have not been removed."""
    rows = connection.execute(select(people).where(people.c.removed.is_(None)).order_by(people.c.id))
    return [_person(row) for row in rows]


def remove(store: Store, connection: Connection, person: int, by: int | None) -> None:
    """Remove a person's data on request: what they wrote is erased, their votes are deleted, the account is closed.

    A sentence keeps its row without the text, so that nobody else's votes point at nothing.
    """
    erased = {"text": "", "hints": "", "state": "removed"}
    connection.execute(sentences.update().where(sentences.c.person == person).values(**erased))
    for table in (votes, refusals, judgements, trials, leases, drafts, receipts):
        connection.execute(table.delete().where(table.c.person == person))
    closed = {"name": f"removed {person}", "invitation": None, "password": None, "removed": store.clock()}
    connection.execute(people.update().where(people.c.id == person).values(**closed))
    store.note(connection, by, "remove person", f"person {person}")


def clean(text: str, longest: int, what: str) -> str:
    """One line of text without control characters."""
    text = one_line(text)
    if not text:
        raise InputError(f"{what} cannot be empty")
    if len(text) > longest:
        raise InputError(f"{what} has at most {longest} characters")
    return text


def one_line(text: str) -> str:
    """Text with everything that is not printable, and every run of blanks, as one blank."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@cache
def _nobody() -> str:
    """Verified where there is no such person: the same time either way."""
    return _hasher.hash("nobody has this password")


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _person(row: Row[Any]) -> Person:
    return Person(row.id, row.name, row.role, row.consented is not None, row.qualified is not None)
