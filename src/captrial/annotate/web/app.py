"""The annotation web application and its pages. A page says what to do; its script fetches items through the API."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated

import uvicorn
from anyio import to_thread
from fastapi import APIRouter, FastAPI, Form, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from captrial.annotate import accounts
from captrial.annotate.accounts import Person
from captrial.annotate.import_export import EXPORTS
from captrial.annotate.live_ranking import METRICS
from captrial.annotate.rounds.base import BaseRound
from captrial.annotate.rounds.qualification import is_needed
from captrial.annotate.rounds.registry import QUALIFICATION, ROUNDS, rounds_of
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import MAX_CONSENT
from captrial.annotate.web.api import create_router
from captrial.annotate.web.sessions import Context, Lead, Member, Visitor, WebContext, address_of
from captrial.html import Templates
from captrial.metrics.registry import column_title
from captrial.version import __version__
from captrial.web.security import protect
from captrial.web.server import LimitedProtocol, mount_static, render_error

THREADS = 4  # for requests that only read; Python runs one at a time anyway
templates = Templates("captrial.annotate.web", "captrial.web")


def create_app(
    directory: Path | str,
    database: str | None = None,
    *,
    secure: bool = False,
    hosts: Collection[str] | None = None,
    images: Path | None = None,
) -> FastAPI:
    """The application for a competition's directory.

    `secure` marks cookies for HTTPS only, `hosts` are the names under which it answers (None: any), and `images` is the
    folder of the images, if not that of the competition.
    """
    context = WebContext(AnnotationService(directory, database=database), secure, images)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield
        context.close()

    app = FastAPI(title="captrial annotate", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = context
    protect(app, lambda message: render_error(templates, message, person=None), hosts=hosts)
    app.include_router(create_router())
    app.include_router(_pages)
    for round_ in ROUNDS.values():
        app.add_api_route(f"/{round_.name}", _round_page(round_), include_in_schema=False)
    mount_static(app, Path(__file__).parent / "static")
    return app


def run(app: FastAPI, listening: socket.socket, https: bool = False) -> None:
    """Serve the application until it is interrupted; with `https` a proxy's forwarded address is trusted."""
    app.state.context.prepare_images()
    # a transaction releases the interpreter's lock at every statement and should not wait 5 ms to get it back
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()  # what is loaded now stays: searching it for garbage would stop all requests
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        log_level="warning",
        server_header=False,
        proxy_headers=https,
        timeout_keep_alive=75,  # people think longer than uvicorn's 5 seconds
    )
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        uvicorn.Server(config).run([listening])


def render(template: str, **values: object) -> HTMLResponse:
    """A page that must not be cached."""
    return HTMLResponse(templates.render(template, **values), headers={"Cache-Control": "no-store"})


# Pages ---------------------------------------------------------------------------------------------------------------

_pages = APIRouter(include_in_schema=False)


@_pages.get("/")
def home(person: Visitor, context: Context) -> Response:
    """The page a person should see now."""
    if person is None:
        return render("login.html", title="captrial", person=None, failed=False)
    if person.role == "lead":
        return RedirectResponse("/lead", 303)
    if not person.consented:
        return RedirectResponse("/consent", 303)
    if not person.qualified:
        return RedirectResponse(f"/{QUALIFICATION.name}", 303)
    rounds = rounds_of(person, context.service.settings())
    own = [round_ for round_ in rounds if person.role in round_.roles]
    if len(own) == 1:  # others are linked from its page when it is finished
        return RedirectResponse(f"/{own[0].name}", 303)
    return render("home.html", title="What would you like to do?", person=person, rounds=rounds)


@_pages.get("/join/{token}")
def join(token: str, request: Request, context: Context) -> Response:
    """Sign in with an invitation link."""
    context.joins.check(address_of(request))
    with context.service.store.read() as connection:
        person = accounts.by_token(connection, token)
    if person is None:
        raise HTTPException(404, "this invitation is not valid (any more); please ask the lead for a new link")
    return _signed_in(person, context)


@_pages.post("/login")
def login(
    request: Request, context: Context, name: Annotated[str, Form()], password: Annotated[str, Form()]
) -> Response:
    """Sign in with a name and a password."""
    context.passwords.check(address_of(request))
    with context.service.store.read() as connection:
        person = accounts.by_password(connection, accounts.one_line(name), password[: accounts.MAX_PASSWORD])
    if person is None:
        page = render("login.html", title="captrial", person=None, failed=True)
        page.status_code = 401
        return page
    return _signed_in(person, context)


@_pages.post("/password")
def choose_password(person: Member, context: Context, password: Annotated[str, Form()]) -> Response:
    """Set a password; other sessions end."""
    accounts.set_password(context.service.store, person.id, password)
    context.sessions.clear_cache()
    return _signed_in(person, context)


@_pages.post("/logout")
def logout(request: Request, context: Context) -> Response:
    """Sign out."""
    response = RedirectResponse("/", 303)
    context.sessions.end(request, response)
    return response


@_pages.get("/consent")
def consent(person: Member, context: Context) -> Response:
    """The consent text, and a password for those who want one."""
    return render("consent.html", title="Before you begin", person=person, text=context.service.settings().consent)


@_pages.get(f"/{QUALIFICATION.name}")
def qualification(person: Member, context: Context) -> Response:
    """The practice images."""
    if person.role not in QUALIFICATION.roles:
        raise HTTPException(403, f"the qualification is not for the role {person.role}")
    with context.service.store.read() as connection:
        needed = is_needed(connection)
    if not person.consented or not needed:
        return RedirectResponse("/consent", 303)
    return _render_round(QUALIFICATION, person, [])


@_pages.get("/lead")
def lead(person: Lead, context: Context) -> Response:
    """The lead's page."""
    settings = context.service.settings()
    values = {
        "settings": settings,
        "numbers": settings.number_fields(),
        "max_consent": MAX_CONSENT,
        "roles": accounts.ROLES,
    }
    metrics = {name: column_title(name) for name in METRICS}
    return render("lead.html", title="Lead", person=person, exports=EXPORTS, metrics=metrics, **values)


def _round_page(round_: BaseRound) -> Callable[..., Response]:
    def page(person: Member, context: Context) -> Response:
        settings = context.service.settings()
        if person.role not in round_.roles_with(settings):
            raise HTTPException(403, f"this page is not for the role {person.role}")
        if not person.consented or not person.qualified:
            message = "please accept the consent text and pass the qualification first: open the start page"
            raise HTTPException(403, message)
        others = [other for other in rounds_of(person, settings) if other is not round_]
        return _render_round(round_, person, others)

    return page


def _render_round(round_: BaseRound, person: Person, others: Sequence[BaseRound]) -> Response:
    """The page of a round; `others` are linked where nothing is left to do in it."""
    values = {"round": round_, "others": others, "person": person, **round_.page_values()}
    return render(round_.template, title=round_.title, **values)


def _signed_in(person: Person, context: WebContext) -> Response:
    response = RedirectResponse("/", 303)
    context.sessions.start(response, person)
    return response
