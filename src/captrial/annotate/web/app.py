"""The web application: pages for people, a JSON API for the pages' scripts, one error form for both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import to_thread
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from captrial.annotate.service import Room
from captrial.annotate.web import api, pages
from captrial.annotate.web.context import Context
from captrial.version import __version__
from captrial.web.security import protect

THREADS = 4  # for what only reads; Python runs one at a time anyway


def create_app(directory: Path | str, database: str | None = None, *, secure: bool = False) -> FastAPI:
    """The application for a competition's directory; `secure` marks cookies for HTTPS only."""
    context = Context(Room(directory, database=database), secure)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield
        context.close()

    app = FastAPI(title="captrial annotate", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = context
    protect(app, _sorry)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    return app


def _sorry(sentence: str) -> str:
    return pages.templates.render("message.html", title="Sorry", text=sentence, person=None)
