"""The studio as a web application: one page, jobs that it follows, the reports of competitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

import captrial.annotate.web
from captrial.attribution.page import source
from captrial.html import Templates
from captrial.studio.captioning import MAX_BYTES, METHODS, Workshop
from captrial.studio.competitions import Rankings
from captrial.studio.jobs import Jobs
from captrial.version import __version__
from captrial.web.security import protect

HERE = Path(__file__).parent / "static"
SHARED = Path(captrial.annotate.web.__file__).parent / "static"  # scripts that the annotation pages use too
FILES = {
    "studio.css": HERE,
    "studio.js": HERE,
    "common.js": SHARED,
    "icon.svg": SHARED,
}
PANEL = {"panel.css": "text/css", "panel.js": "text/javascript"}  # of the page of `captrial explain`
HOSTS = ["127.0.0.1", "localhost"]  # another name that leads here is another site's trick (DNS rebinding)


def create_app(models: Sequence[str] = (), competitions: Sequence[Path] = (), regions: str = "localiser") -> FastAPI:
    """The studio for the shipped captioners, those named by `models`, and some competitions' directories."""
    workshop, rankings, jobs = Workshop(models, regions), Rankings(competitions), Jobs()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.close()

    app = FastAPI(title="captrial studio", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.jobs = jobs
    _add_pages(app, workshop, rankings)
    _add_jobs(app, workshop, rankings, jobs)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    protect(app, _sorry, max_body=MAX_BYTES)
    return app


def _add_pages(app: FastAPI, workshop: Workshop, rankings: Rankings) -> None:
    @app.get("/")
    def studio() -> HTMLResponse:
        """The one page."""
        limit = MAX_BYTES >> 20
        values = {"models": workshop.names, "methods": METHODS, "competitions": rankings.titles(), "megabytes": limit}
        return HTMLResponse(_page("studio.html", **values), headers={"Cache-Control": "no-store"})

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        """Style sheets and scripts, ours and those of other pages that are used here."""
        if name in PANEL:
            return Response(source(name), media_type=PANEL[name])
        if name not in FILES:
            raise HTTPException(404, "there is no such file")
        return FileResponse(FILES[name] / name)

    @app.get("/competition/{number}/{name:path}")
    def competition(number: int, name: str) -> Response:
        """A report; written before by a job."""
        return rankings.serve(number, name) if name else RedirectResponse(f"/competition/{number}/index.html")


def _add_jobs(app: FastAPI, workshop: Workshop, rankings: Rankings, jobs: Jobs) -> None:
    @app.post("/api/look")
    async def look(
        request: Request, model: Annotated[list[str], Query()], method: str, file: str = "image"
    ) -> dict[str, Any]:
        """Take an image (the body) and begin to describe and explain it."""
        workshop.check(model, method)
        content = await request.body()
        name = file[:120]
        return jobs.add(lambda job: workshop.look(job, content, name, model, method), workshop.steps(model)).look()

    @app.post("/api/competition/{number}")
    async def rank(number: int) -> dict[str, Any]:
        """Begin to write the report of a competition."""
        rankings.directory(number)
        return jobs.add(lambda job: rankings.prepare(job, number), 3).look()

    @app.get("/api/jobs/{number}")
    async def follow(number: int, seen: int = 0) -> dict[str, Any]:
        """How far a job is, and its results after the first `seen`."""
        job = jobs.get(number)
        if job is None:
            raise HTTPException(404, "this is not remembered any more; ask again")
        return job.look(max(0, seen))

    @app.delete("/api/jobs/{number}")
    async def cancel(number: int) -> dict[str, Any]:
        """End a job that nobody waits for."""
        jobs.cancel(number)
        return {}


_templates = Templates("captrial.studio")


def _page(template: str, **values: object) -> str:
    return _templates.render(template, version=__version__, **values)


def _sorry(sentence: str) -> str:
    return _page("sorry.html", sentence=sentence)
