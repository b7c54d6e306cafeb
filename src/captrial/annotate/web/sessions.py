"""Who is signed in, and what every route needs: the service, the sessions and the rate limits."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from anyio import to_thread
from fastapi import Depends, HTTPException, Request, Response
from itsdangerous import BadSignature, URLSafeTimedSerializer

from captrial.annotate.accounts import Person, by_id
from captrial.annotate.database.transactions import Store, WriteQueue
from captrial.annotate.live_ranking import LiveRanking
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.image_server import ImageServer
from captrial.web.security import RateLimit

P = ParamSpec("P")
T = TypeVar("T")
COOKIE = "captrial_session"
SESSION_DAYS = 30
CACHE_SECONDS = 10.0  # for which the database is not asked again about a person


class Sessions:
    """Signed cookies that hold a person's number. The key is in the database, so a restart signs nobody out."""

    def __init__(self, store: Store, secure: bool) -> None:
        self.store, self.secure = store, secure
        with store.change() as connection:
            key = store.get_setting(connection, "session_key", None)
            if key is None:
                key = secrets.token_hex(32)
                store.set_setting(connection, "session_key", key)
        self._signer = URLSafeTimedSerializer(key, salt="captrial-session")
        self._cache: dict[int, tuple[float, Person]] = {}  # until when, and the person
        self._removals = 0

    def start(self, response: Response, person: Person) -> None:
        """Sign a person in."""
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
        """The person's number in the cookie; None where its signature is wrong or it is too old."""
        try:
            return int(self._signer.loads(request.cookies.get(COOKIE, ""), max_age=SESSION_DAYS * 86400))
        except BadSignature:
            return None

    def cached(self, number: int) -> Person | None:
        """The person as read from the database a moment ago."""
        until, person = self._cache.get(number, (0.0, None))
        return person if time.monotonic() < until else None

    def find(self, number: int) -> Person | None:
        """Read the person from the database.

        A person who is ready to work changes only by being removed, so they can be cached until somebody is.
        """
        removals = self._removals
        with self.store.read() as connection:
            person = by_id(connection, number)
        if person is not None and person.consented and person.qualified and removals == self._removals:
            self._cache[number] = time.monotonic() + CACHE_SECONDS, person
        return person

    def clear_cache(self) -> None:
        """Read everybody from the database again, because somebody was removed."""
        self._removals += 1
        self._cache = {}


class WebContext:
    """Shared by all requests of one application."""

    def __init__(self, service: AnnotationService, secure: bool) -> None:
        self.service = service
        self.sessions = Sessions(service.store, secure)
        self.images = ImageServer(service.directory / "served", service.competition.image_source)
        self.live_ranking = LiveRanking(service)
        self.requests = RateLimit(rate=20, burst=100)  # a person
        self.joins = RateLimit(rate=20, burst=300)  # invitation links opened from one address: a whole class may come
        self.passwords = RateLimit(rate=0.5, burst=20)  # attempts to sign in from one address
        self._queue = WriteQueue(service.store)

    def prepare_images(self) -> None:
        """Encode images in a thread before people ask for them."""
        wanted = (self.service.active_images, self.service.closed)
        threading.Thread(target=self.images.prepare_new, args=wanted, name="images", daemon=True).start()

    async def change(self, action: Callable[P, T], *values: P.args, **options: P.kwargs) -> T:
        """Run an action that changes the database in the thread for that; returns when it is on disk."""
        return await self._queue.run(partial(action, *values, **options))

    def close(self) -> None:
        """Finish what was begun, and close the database."""
        self._queue.close()
        self.service.close()


async def get_context(request: Request) -> WebContext:
    """The context of the application."""
    context: WebContext = request.app.state.context
    return context


async def visitor(request: Request, context: Annotated[WebContext, Depends(get_context)]) -> Person | None:
    """The person who is signed in, or None."""
    number = context.sessions.number(request)
    if number is None:
        return None
    person = context.sessions.cached(number) or await to_thread.run_sync(context.sessions.find, number)
    if person is not None:
        context.requests.check(f"person {person.id}")
    return person


async def member(person: Annotated[Person | None, Depends(visitor)]) -> Person:
    """The person who is signed in; refuses anybody else."""
    if person is None:
        raise HTTPException(401, "please open your invitation link, or sign in")
    return person


async def lead(person: Annotated[Person, Depends(member)]) -> Person:
    """The lead; refuses anybody else."""
    if person.role != "lead":
        raise HTTPException(403, "only the lead may do this")
    return person


def address_of(request: Request) -> str:
    """The network address a request comes from."""
    return request.client.host if request.client else "unknown"


Context = Annotated[WebContext, Depends(get_context)]
Visitor = Annotated[Person | None, Depends(visitor)]
Member = Annotated[Person, Depends(member)]
Lead = Annotated[Person, Depends(lead)]
