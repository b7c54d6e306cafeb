"""Server-rendered pages. A page says what to do; its script fetches the items through the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from captrial.annotate import accounts
from captrial.annotate.rounds.qualification import is_needed
from captrial.annotate.settings import read_settings
from captrial.annotate.web.api import rounds_of
from captrial.annotate.web.context import (
    Lead,
    Member,
    Shared,
    Visitor,
    address_of,
)
from captrial.annotate.writing_rules import RULES
from captrial.html import Templates

router = APIRouter(include_in_schema=False)
templates = Templates("captrial.annotate.web")
TITLES = {"write": "Describe", "inspect": "Inspect", "judge": "Compare"}


def render(template: str, **values: object) -> HTMLResponse:
    """A page; nothing in it may be cached by others."""
    content = templates.render(template, **values)
    return HTMLResponse(content, headers={"Cache-Control": "no-store"})


@router.get("/")
def home(person: Visitor, context: Shared) -> Response:
    """What there is to do for whoever comes."""
    if person is None:
        return render("login.html", title="captrial", person=None, failed=False)
    if person.role == "lead":
        return RedirectResponse("/lead", 303)
    if not person.consented:
        return RedirectResponse("/consent", 303)
    with context.room.store.read() as connection:
        settings = read_settings(context.room.store, connection)
    if not person.qualified:
        return RedirectResponse("/qualify", 303)
    rounds = rounds_of(person, settings)
    if len(rounds) == 1:
        return RedirectResponse(f"/{rounds[0]}", 303)
    return render("home.html", title="What would you like to do?", person=person, rounds=rounds, titles=TITLES)


@router.get("/join/{token}")
def join(token: str, request: Request, context: Shared) -> Response:
    """An invitation link signs its owner in."""
    context.entrances.check(address_of(request))
    with context.room.store.read() as connection:
        person = accounts.by_token(connection, token)
    if person is None:
        raise HTTPException(404, "this invitation is not valid (any more); please ask the lead for a new link")
    response = RedirectResponse("/", 303)
    context.sessions.start(response, person)
    return response


@router.post("/login")
def login(
    request: Request, context: Shared, name: Annotated[str, Form()], password: Annotated[str, Form()]
) -> Response:
    """Sign in with a name and a password."""
    context.passwords.check(address_of(request))
    with context.room.store.read() as connection:
        person = accounts.by_password(connection, accounts.one_line(name), password[: accounts.MAX_PASSWORD])
    if person is None:
        page = render("login.html", title="captrial", person=None, failed=True)
        page.status_code = 401
        return page
    response = RedirectResponse("/", 303)
    context.sessions.start(response, person)
    return response


@router.post("/password")
def choose_password(person: Member, context: Shared, password: Annotated[str, Form()]) -> Response:
    """Choose a password."""
    accounts.set_password(context.room.store, person.id, password)
    return RedirectResponse("/", 303)


@router.post("/logout")
def logout(context: Shared) -> Response:
    """Sign out."""
    response = RedirectResponse("/", 303)
    context.sessions.end(response)
    return response


@router.get("/consent")
def consent(person: Member, context: Shared) -> Response:
    """What happens with people's work, before they begin."""
    with context.room.store.read() as connection:
        settings = read_settings(context.room.store, connection)
    return render("consent.html", title="Before you begin", person=person, text=settings.consent)


@router.get("/qualify")
def qualify(person: Member, context: Shared) -> Response:
    """Round 0."""
    with context.room.store.read() as connection:
        needed = is_needed(connection)
    if person.role != "annotator":
        raise HTTPException(403, f"the qualification is not for the role {person.role}")
    if not person.consented or not needed:
        return RedirectResponse("/consent", 303)
    return render("write.html", title="Practice", person=person, rules=RULES, practice=True)


@router.get("/write")
def write(person: Member) -> Response:
    """Round 1."""
    _ready(person, "annotator")
    return render("write.html", title="Describe", person=person, rules=RULES, practice=False)


@router.get("/inspect")
def inspect(person: Member) -> Response:
    """Round 2."""
    _ready(person, "inspector")
    return render("inspect.html", title="Inspect", person=person, rules=RULES)


@router.get("/judge")
def judge(person: Member) -> Response:
    """The optional round."""
    _ready(person, "annotator", "inspector")
    return render("judge.html", title="Compare", person=person)


@router.get("/lead")
def lead(person: Lead, context: Shared) -> Response:
    """The lead's page."""
    with context.room.store.read() as connection:
        settings = read_settings(context.room.store, connection)
    return render("lead.html", title="Lead", person=person, settings=settings)


def _ready(person: accounts.Person, *roles: str) -> None:
    if person.role not in roles:
        raise HTTPException(403, f"this page is not for the role {person.role}")
    if not person.consented or not person.qualified:
        raise HTTPException(403, "please accept the consent text and pass the qualification first: open the start page")
