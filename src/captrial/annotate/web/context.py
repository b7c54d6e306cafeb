"""What every route needs: the room, the sessions, the rate limits; and who is asking."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from anyio import to_thread
from fastapi import Depends, HTTPException, Request

from captrial.annotate.accounts import Person
from captrial.annotate.database.write_queue import Changes
from captrial.annotate.live_ranking import LiveRanking
from captrial.annotate.service import Room
from captrial.annotate.web.images import ImageServer
from captrial.annotate.web.sessions import Sessions
from captrial.web.security import RateLimit

P = ParamSpec("P")
T = TypeVar("T")


class Context:
    """Shared by all requests of one application."""

    def __init__(self, room: Room, secure: bool) -> None:
        self.room = room
        self.sessions = Sessions(room.store, secure)
        self.images = ImageServer(room.directory / "served", room.competition.image_source)
        self.live = LiveRanking(room)
        self.requests = RateLimit(rate=20, burst=100)  # of a person
        self.entrances = RateLimit(rate=20, burst=300)  # links opened from an address: a class may come
        self.passwords = RateLimit(rate=0.5, burst=20)  # attempts to guess a password, from an address
        self._changes = Changes(room.store)

    def prepare_images(self) -> None:
        """Encode images ahead of the people who will ask for them."""
        wanted = (self.room.active_images, self.room.closed)
        threading.Thread(target=self.images.keep_ahead, args=wanted, name="images", daemon=True).start()

    async def change(self, action: Callable[P, T], *values: P.args, **options: P.kwargs) -> T:
        """Run what changes the database in the one thread that does."""
        return await self._changes.make(partial(action, *values, **options))

    def close(self) -> None:
        """Finish what was begun."""
        self._changes.close()
        self.room.close()


async def get_context(request: Request) -> Context:
    """The application's context."""
    context: Context = request.app.state.context
    return context


async def visitor(request: Request, context: Annotated[Context, Depends(get_context)]) -> Person | None:
    """Who is asking, or None for a stranger."""
    number = context.sessions.number(request)
    if number is None:
        return None
    person = context.sessions.remembered(number) or await to_thread.run_sync(context.sessions.find, number)
    if person is not None:
        context.requests.check(f"person {person.id}")
    return person


async def member(person: Annotated[Person | None, Depends(visitor)]) -> Person:
    """Somebody who is signed in."""
    if person is None:
        raise HTTPException(401, "please open your invitation link, or sign in")
    return person


async def lead(person: Annotated[Person, Depends(member)]) -> Person:
    """The lead."""
    if person.role != "lead":
        raise HTTPException(403, "only the lead may do this")
    return person


def address_of(request: Request) -> str:
    """The address a request comes from."""
    return request.client.host if request.client else "unknown"


Shared = Annotated[Context, Depends(get_context)]
Visitor = Annotated[Person | None, Depends(visitor)]
Member = Annotated[Person, Depends(member)]
Lead = Annotated[Person, Depends(lead)]
