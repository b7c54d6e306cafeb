"""Accounts: a lead invites people by link, and roles decide what a person may do.

Tokens and passwords are stored as hashes only. How often a password may be tried: `captrial.annotate.web.sessions`.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy import Connection, Row, bindparam, select

from captrial.annotate.database.schema import people, sessions
from captrial.annotate.database.transactions import Store
from captrial.errors import InputError

ROLES = ("annotator", "inspector", "lead")
MAX_NAME = 80
MIN_PASSWORD, MAX_PASSWORD = 10, 200
_BY_ID = select(people).where(people.c.id == bindparam("person"), people.c.removed.is_(None))
SESSION_SECONDS = 30 * 86400
_BY_SESSION = (
    select(people)
    .join(sessions, sessions.c.person == people.c.id)
    .where(sessions.c.token == bindparam("token"), sessions.c.created >= bindparam("since"))
    .where(people.c.removed.is_(None))
)
_hasher = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Person:
    """An account, and what its owner may do."""

    id: int
    name: str
    role: str
    consented: bool
    qualified: bool


def invite(store: Store, connection: Connection, name: str, role: str, by: int | None = None) -> tuple[Person, str]:
    """Add a person; returns them and the token of their link, which is not stored and cannot be shown again."""
    name = clean(name, MAX_NAME, "a name")
    if role not in ROLES:
        raise InputError(f"there is no role {role!r}; the roles are: {', '.join(ROLES)}")
    token = secrets.token_urlsafe(32)
    row = {"name": name, "role": role, "invitation": _hashed(token), "created": store.clock()}
    number: int = connection.execute(people.insert().values(**row).returning(people.c.id)).scalar_one()
    store.note(connection, by, "invite", f"person {number} as {role}")
    return Person(number, name, role, False, False), token


def renew_invitation(store: Store, connection: Connection, person: int, by: int | None) -> str:
    """Return the token of a new invitation link; the old link, the password and all sessions stop working."""
    token = secrets.token_urlsafe(32)
    renewed = {"invitation": _hashed(token), "password": None}
    connection.execute(people.update().where(people.c.id == person).values(**renewed))
    end_sessions(connection, person)
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
            if _hasher.verify(hashed or _dummy_hash(), password) and hashed:
                return by_id(connection, number)
        except (VerifyMismatchError, InvalidHashError):
            continue
    return None


def set_password(store: Store, person: int, password: str) -> None:
    """Set a password, with which a person can sign in without their link; ends all their sessions."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise InputError(f"a password must have {MIN_PASSWORD} to {MAX_PASSWORD} characters")
    hashed = _hasher.hash(password)  # slow on purpose: outside the transaction, which would make others wait
    with store.change() as connection:
        connection.execute(people.update().where(people.c.id == person).values(password=hashed))
        end_sessions(connection, person)


def qualify(store: Store, connection: Connection, person: int, by: int | None = None) -> None:
    """Let a person take part in the experiment; `by` is the lead, where they allow it without a test."""
    connection.execute(people.update().where(people.c.id == person).values(qualified=store.clock()))
    store.note(connection, by if by is not None else person, "qualified", f"person {person}")


def consent(store: Store, connection: Connection, person: int) -> None:
    """Note that the person has accepted the consent text."""
    connection.execute(people.update().where(people.c.id == person).values(consented=store.clock()))
    store.note(connection, person, "consent")


def all_people(connection: Connection) -> list[Person]:
    """Everybody who has not been removed."""
    rows = connection.execute(select(people).where(people.c.removed.is_(None)).order_by(people.c.id))
    return [_person(row) for row in rows]


def close_account(store: Store, connection: Connection, person: int, by: int | None) -> None:
    """Close an account and erase its name; what the person did is removed by `AnnotationService.remove_person`."""
    closed = {"name": f"removed {person}", "invitation": None, "password": None, "removed": store.clock()}
    connection.execute(people.update().where(people.c.id == person).values(**closed))
    end_sessions(connection, person)
    store.note(connection, by, "remove person", f"person {person}")


# Sessions ------------------------------------------------------------------------------------------------------------


def start_session(store: Store, connection: Connection, person: int) -> str:
    """Sign a person in; returns the token of the session, of which only a hash is stored."""
    token, now = secrets.token_urlsafe(32), store.clock()
    connection.execute(sessions.delete().where(sessions.c.created < now - SESSION_SECONDS))
    connection.execute(sessions.insert().values(token=_hashed(token), person=person, created=now))
    return token


def by_session(store: Store, connection: Connection, token: str) -> Person | None:
    """The person of a session that has not ended."""
    values = {"token": _hashed(token), "since": store.clock() - SESSION_SECONDS}
    row = connection.execute(_BY_SESSION, values).one_or_none()
    return None if row is None else _person(row)


def end_session(connection: Connection, token: str) -> None:
    """Sign out of one session."""
    connection.execute(sessions.delete().where(sessions.c.token == _hashed(token)))


def end_sessions(connection: Connection, person: int) -> None:
    """Sign a person out everywhere."""
    connection.execute(sessions.delete().where(sessions.c.person == person))


# Texts ---------------------------------------------------------------------------------------------------------------


def clean(text: str, max_length: int, what: str) -> str:
    """Return one line of text without control characters; raises `InputError` where it is empty or too long."""
    text = one_line(text)
    if not text:
        raise InputError(f"{what} cannot be empty")
    if len(text) > max_length:
        raise InputError(f"{what} can have at most {max_length} characters")
    return text


def one_line(text: str) -> str:
    """Replace unprintable characters, and every run of blanks, by one blank."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@cache
def _dummy_hash() -> str:
    """Verified where there is no such person, so that this takes as long as a wrong password."""
    return _hasher.hash("nobody has this password")


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _person(row: Row[Any]) -> Person:
    return Person(row.id, row.name, row.role, row.consented is not None, row.qualified is not None)
