"""What every route needs: the room, the sessions, the rate limits; and who is asking."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, HTTPException, Request

from captrial.annotate.people import Person
from captrial.annotate.room import Room
from captrial.annotate.security import RateLimit, Sessions
from captrial.annotate.serving import PictureServer

if TYPE_CHECKING:
    from captrial.annotate.live import LiveRanking


class Context:
    """Shared by all requests of one application."""

    def __init__(self, room: Room, secure: bool) -> None:
        self.room = room
        self.sessions = Sessions(room.store, secure)
        self.pictures = PictureServer(room.directory / "served")
        self.requests = RateLimit(rate=20, burst=100)  # of a person
        self.entrances = RateLimit(rate=20, burst=300)  # links opened from an address: a class may come
        self.passwords = RateLimit(rate=0.5, burst=20)  # attempts to guess a password, from an address

    def prepare_pictures(self) -> None:
        """Encode the pictures of the competition ahead of the people who will ask for them."""
        wanted = (self.room.competition.image_path, self.room.competition.images(), self.room.closed)
        threading.Thread(target=self.pictures.prepare, args=wanted, name="pictures", daemon=True).start()

    @cached_property
    def live(self) -> LiveRanking:
        """The live ranking, loaded when a lead first asks: it needs scipy, and the server should start at once."""
        from captrial.annotate.live import LiveRanking

        return LiveRanking()


async def get_context(request: Request) -> Context:
    """The application's context."""
    context: Context = request.app.state.context
    return context


def visitor(request: Request, context: Annotated[Context, Depends(get_context)]) -> Person | None:
    """Who is asking, or None for a stranger."""
    person = context.sessions.person(request)
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
