"""Signed session cookies: who is asking."""

from __future__ import annotations

import secrets
import time

from fastapi import Request, Response
from itsdangerous import BadSignature, URLSafeTimedSerializer

from captrial.annotate.accounts import Person, by_id
from captrial.annotate.database.connection import Store

COOKIE = "captrial_session"
SESSION_DAYS = 30
REMEMBERED = 10.0  # seconds for which the database is not asked again about somebody


class Sessions:
    """Signed cookies that hold a person's number; the key is kept in the database, so restarts sign nobody out."""

    def __init__(self, store: Store, secure: bool) -> None:
        self.store, self.secure = store, secure
        with store.change() as connection:
            key = store.get_setting(connection, "session_key", None)
            if key is None:
                key = secrets.token_hex(32)
                store.set_setting(connection, "session_key", key)
        self._signer = URLSafeTimedSerializer(key, salt="captrial-session")
        self._known: dict[int, tuple[float, Person]] = {}  # until when; who
        self._removals = 0

    def start(self, response: Response, person: Person) -> None:
        """Sign somebody in."""
        response.set_cookie(
            COOKIE,
            self._signer.dumps(person.id),
            max_age=SESSION_DAYS * 86400,
            httponly=True,
            samesite="lax",
            secure=self.secure,
            path="/",
        )

    def end(self, response: Response) -> None:
        """Sign out."""
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=self.secure)

    def number(self, request: Request) -> int | None:
        """The number in the cookie, if we signed it."""
        try:
            return int(self._signer.loads(request.cookies.get(COOKIE, ""), max_age=SESSION_DAYS * 86400))
        except BadSignature:
            return None

    def remembered(self, number: int) -> Person | None:
        """Somebody about whom the database was asked a moment ago."""
        until, person = self._known.get(number, (0.0, None))
        return person if time.monotonic() < until else None

    def find(self, number: int) -> Person | None:
        """Somebody as the database knows them now.

        Who is ready to work can change only by being removed, so they can be remembered until somebody is.
        """
        removals = self._removals
        with self.store.read() as connection:
            person = by_id(connection, number)
        if person is not None and person.consented and person.qualified and removals == self._removals:
            self._known[number] = time.monotonic() + REMEMBERED, person
        return person

    def forget(self) -> None:
        """Ask the database again about everybody, since somebody was removed."""
        self._removals += 1
        self._known = {}
