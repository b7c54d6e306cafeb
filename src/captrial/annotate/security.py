"""Who is asking, and whether the request may be trusted: sessions, cross-site checks, rate limits, headers."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fastapi import HTTPException, Request, Response
from itsdangerous import BadSignature, URLSafeTimedSerializer

from captrial.annotate.people import Person, by_id
from captrial.annotate.store import Store

COOKIE = "captrial_session"
SESSION_DAYS = 30
REMEMBERED = 10.0  # seconds for which the database is not asked again about somebody
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer" browsers would send "Origin: null" from our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
SAFE = ("GET", "HEAD", "OPTIONS")
CLIENT_HEADER = "x-captrial-client"  # programs that are not browsers say so; a cross-site page cannot add it


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


def check_origin(request: Request) -> None:
    """Refuse a request that changes something and was not made by our own pages (CSRF).

    Browsers say where a request comes from in `Sec-Fetch-Site` or `Origin`; a program without either must send a header
    that another site's page cannot add without our consent.
    """
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        trusted = site == "same-origin"
    elif origin is not None:
        trusted = urlsplit(origin).netloc == request.headers.get("host")
    else:
        trusted = CLIENT_HEADER in request.headers
    if not trusted:
        raise HTTPException(403, "this request did not come from this site's own pages")


@dataclass
class RateLimit:
    """A token bucket a key: `burst` requests at once, `rate` a second after that."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # what is left, and when that was
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, key: str) -> None:
        """Refuse with 429 where a key asks too often."""
        now = self.clock()
        with self._lock:
            left, then = self._buckets.get(key, (self.burst, now))
            left = min(self.burst, left + (now - then) * self.rate)
            self._buckets[key] = (left - 1 if left >= 1 else left, now)
            if len(self._buckets) > 10_000:
                self._forget_full(now)
        if left < 1:
            raise HTTPException(429, "too many requests; wait a moment", {"Retry-After": str(int(1 / self.rate) + 1)})

    def _forget_full(self, now: float) -> None:
        """A full bucket says nothing that a new one would not."""
        kept = {
            key: (left, at) for key, (left, at) in self._buckets.items() if left + (now - at) * self.rate < self.burst
        }
        self._buckets = kept
