"""The web application: pages for people, a JSON API for the pages' scripts, one error form for both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import to_thread
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException

from captrial.annotate import api, pages
from captrial.annotate.context import Context
from captrial.annotate.guard import Guard
from captrial.annotate.people import NotAllowedError
from captrial.annotate.room import Room
from captrial.annotate.store import Store
from captrial.errors import CaptrialError, StateError
from captrial.version import __version__

THREADS = 4  # for what only reads; Python runs one at a time anyway


def create_app(directory: Path | str, database: str | None = None, *, secure: bool = False) -> FastAPI:
    """The application for a competition's directory; `secure` marks cookies for HTTPS only."""
    context = Context(Room(directory, Store.in_directory(directory, database)), secure)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield
        context.close()

    app = FastAPI(title="captrial annotate", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = context
    app.add_middleware(Guard, refuse=_http_error)
    app.add_exception_handler(CaptrialError, _our_error)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    return app


async def _our_error(request: Request, error: Exception) -> Response:
    status = 403 if isinstance(error, NotAllowedError) else 409 if isinstance(error, StateError) else 422
    return await _http_error(request, HTTPException(status, str(error)))


async def _not_understood(request: Request, error: Exception) -> Response:
    """Say what is wrong without repeating what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return await _http_error(request, HTTPException(422, f"{place or 'the request'}: {first['msg']}"))


async def _http_error(request: Request, error: Exception) -> Response:
    """One sentence, as JSON for scripts and as a page for people."""
    assert isinstance(error, StarletteHTTPException)
    if request.url.path.startswith(("/api/", "/picture/")):
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
    content = pages.templates.get_template("message.html").render(title="Sorry", text=error.detail, person=None)
    return HTMLResponse(content, error.status_code, error.headers)
