"""The web application: pages for people, a JSON API for the pages' scripts, one error form for both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException

from captrial.annotate import api, pages
from captrial.annotate.context import Context
from captrial.annotate.room import Room
from captrial.annotate.security import HEADERS, check_origin
from captrial.errors import CaptrialError, StateError
from captrial.version import __version__

MAX_BODY = 64 * 1024  # bytes of a request; sentences are short


def create_app(directory: Path | str, database: str | None = None, *, secure: bool = False) -> FastAPI:
    """The application for a competition's directory; `secure` marks cookies for HTTPS only."""
    from captrial.annotate.store import Store

    room = Room(directory, Store.in_directory(directory, database))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        room.close()

    app = FastAPI(title="captrial annotate", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = Context(room, secure)
    app.middleware("http")(_guard)
    app.add_exception_handler(CaptrialError, _our_error)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    return app


async def _guard(request: Request, following: Callable[[Request], Awaitable[Response]]) -> Response:
    """Before every request: where it comes from and how large it is; after it: the headers."""
    try:
        check_origin(request)
        if int(request.headers.get("content-length") or 0) > MAX_BODY:
            raise HTTPException(413, "the request is too large")
        if request.method not in ("GET", "HEAD", "OPTIONS") and "content-length" not in request.headers:
            raise HTTPException(411, "a request with a body needs its length")
        response = await following(request)
    except (HTTPException, ValueError) as error:
        known = error if isinstance(error, HTTPException) else HTTPException(400, "bad request")
        response = await _http_error(request, known)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _our_error(request: Request, error: Exception) -> Response:
    return await _http_error(request, HTTPException(409 if isinstance(error, StateError) else 422, str(error)))


async def _http_error(request: Request, error: Exception) -> Response:
    """One sentence, as JSON for scripts and as a page for people."""
    assert isinstance(error, StarletteHTTPException)
    if request.url.path.startswith(("/api/", "/picture/")):
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
    content = pages.templates.get_template("message.html").render(title="Sorry", text=error.detail, person=None)
    return HTMLResponse(content, error.status_code, error.headers)
