"""Who is signed in, and what every route needs: the service, the sessions and the rate limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from anyio import to_thread
from fastapi import Depends, HTTPException, Request, Response

from captrial.annotate import accounts
from captrial.annotate.accounts import Person
from captrial.annotate.database.transactions import Store, WriteQueue
from captrial.annotate.live_ranking import LiveRanking
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.image_server import ImageServer
from captrial.data.image_source import ImageSource
from captrial.errors import InputError
from captrial.web.security import RateLimit

P = ParamSpec("P")
T = TypeVar("T")
COOKIE = "captrial_session"
MAX_TOKEN = 100  # characters
CACHE_SECONDS = 10.0  # for which the database is not asked again about a person


class Sessions:
    """Sessions in the database, so that a restart signs nobody out; the cookie holds a session's random token.

    Signing out, a new password, a renewed invitation and removal end sessions at once: an old cookie is worth nothing.
    """

    def __init__(self, store: Store, secure: bool) -> None:
        self.store, self.secure = store, secure
        self._cache: dict[str, tuple[float, Person]] = {}  # by token: until when, and the person
        self._changes = 0

    def start(self, response: Response, person: Person) -> None:
        """Sign a person in."""
        with self.store.change() as connection:
            token = accounts.start_session(self.store, connection, person.id)
        options: dict[str, Any] = {"httponly": True, "samesite": "lax", "secure": self.secure, "path": "/"}
        response.set_cookie(COOKIE, token, max_age=accounts.SESSION_SECONDS, **options)

    def end(self, request: Request, response: Response) -> None:
        """Sign out: the session ends, and the browser forgets the cookie."""
        with self.store.change() as connection:
            accounts.end_session(connection, request.cookies.get(COOKIE, ""))
        self.clear_cache()
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=self.secure)

    def cached(self, token: str) -> Person | None:
        """The person of a session as read from the database a moment ago."""
        until, person = self._cache.get(token, (0.0, None))
        return person if time.monotonic() < until else None

    def find(self, token: str) -> Person | None:
        """Read the person of a session from the database.

        A person who is ready to work changes only where a session ends, so they can be cached until one does.
        """
        changes = self._changes
        with self.store.read() as connection:
            person = accounts.by_session(self.store, connection, token)
        if person is not None and person.consented and person.qualified and changes == self._changes:
            self._cache[token] = time.monotonic() + CACHE_SECONDS, person
        return person

    def clear_cache(self) -> None:
        """Read everybody from the database again, because a session has ended."""
        self._changes += 1
        self._cache = {}


class WebContext:
    """Shared by all requests of one application."""

    def __init__(self, service: AnnotationService, secure: bool, images: Path | None = None) -> None:
        self.service = service
        self.sessions = Sessions(service.store, secure)
        source = ImageSource(images) if images is not None else service.competition.image_source
        self.images = ImageServer(service.directory / "served", source)
        self.live_ranking = LiveRanking(service)
        self.requests = RateLimit(rate=20, burst=100)  # a person
        self.joins = RateLimit(rate=20, burst=300)  # invitation links opened from one address: a whole class may come
        self.passwords = RateLimit(rate=0.5, burst=20)  # attempts to sign in from one address
        self._queue = WriteQueue(service.store)

    def notes(self) -> list[str]:
        """What the lead should know before anybody is invited: missing images, too few people.

        Raises an `InputError` where there is no image at all.
        """
        active = self.service.active_images()
        missing = self.images.missing(active)
        notes = []
        if missing and len(missing) == len(active):
            where = f"none is in {self.images.images.root}" if self.images.images else "it has no folder of images"
            raise InputError(
                f"{self.service.directory}: there is no image to show ({where}); give --images FOLDER, the folder that "
                f"holds {missing[0]}"
            )
        if missing:
            listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            notes.append(
                f"{len(missing)} of the {len(active)} images to annotate are missing ({listed}); people will see no "
                "image there: complete the folder, or give another one by --images"
            )
        return notes + self.service.missing_people()

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
    token = request.cookies.get(COOKIE, "")
    if not token or len(token) > MAX_TOKEN:
        return None
    person = context.sessions.cached(token) or await to_thread.run_sync(context.sessions.find, token)
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
