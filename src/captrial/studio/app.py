"""The studio as a web application: one page, tasks that it follows, and the reports of competitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from captrial.attribution.methods.registry import METHODS, explain_methods
from captrial.attribution.page import source
from captrial.html import Templates
from captrial.studio.competition_reports import CompetitionReports
from captrial.studio.image_explainer import MAX_BYTES, ImageExplainer
from captrial.studio.tasks import TaskQueue
from captrial.version import __version__
from captrial.web.security import protect
from captrial.web.server import mount_static, render_error

HOSTS = ["127.0.0.1", "localhost"]  # any other host name is refused: it could be DNS rebinding
_templates = Templates("captrial.studio", "captrial.web")


def create_app(models: Sequence[str] = (), competitions: Sequence[Path] = (), regions: str = "localiser") -> FastAPI:
    """The studio with the shipped captioners, those named by `models`, and some competitions' directories."""
    explainer, reports, tasks = ImageExplainer(models, regions), CompetitionReports(competitions), TaskQueue()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        tasks.close()

    app = FastAPI(title="captrial studio", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    _add_pages(app, explainer, reports)
    _add_api(app, explainer, reports, tasks)
    mount_static(app, Path(__file__).parent / "static")
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    protect(app, lambda message: render_error(_templates, message, version=__version__), max_body=MAX_BYTES)
    return app


def _add_pages(app: FastAPI, explainer: ImageExplainer, reports: CompetitionReports) -> None:
    @app.get("/")
    def studio() -> HTMLResponse:
        """The page."""
        values = {
            "models": explainer.names,
            "methods": [METHODS[name] for name in explain_methods()],
            "competitions": reports.titles(),
        }
        limits = {"megabytes": MAX_BYTES >> 20, "version": __version__}
        page = _templates.render("studio.html", title="Studio", **values, **limits)
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})

    @app.get("/static/panel.css")
    def panel_style() -> Response:
        """The style sheet of the page of `captrial explain`."""
        return Response(source("panel.css"), media_type="text/css")

    @app.get("/static/panel.js")
    def panel_script() -> Response:
        """The script of the page of `captrial explain`."""
        return Response(source("panel.js"), media_type="text/javascript")

    @app.get("/competition/{number}/{name:path}")
    def competition(number: int, name: str) -> Response:
        """A file of a report, which a task has written."""
        return reports.serve(number, name) if name else RedirectResponse(f"/competition/{number}/index.html")


def _add_api(app: FastAPI, explainer: ImageExplainer, reports: CompetitionReports, tasks: TaskQueue) -> None:
    @app.post("/api/explain")
    async def explain(
        request: Request, model: Annotated[list[str], Query()], method: str, file: str = "image"
    ) -> dict[str, Any]:
        """Start to caption and explain an image, which is the body of the request."""
        explainer.check(model, method)
        content = await request.body()
        name = file[:120]
        total = explainer.count_steps(model)
        return tasks.add(lambda task: explainer.run(task, content, name, model, method), total).status()

    @app.post("/api/competition/{number}")
    async def rank(number: int) -> dict[str, Any]:
        """Start to write the report of a competition."""
        reports.directory(number)
        return tasks.add(lambda task: reports.write(task, number), 3).status()

    @app.get("/api/tasks/{number}")
    async def follow(number: int, seen: int = 0) -> dict[str, Any]:
        """The status of a task, and its results after the first `seen`."""
        task = tasks.get(number)
        if task is None:
            raise HTTPException(404, "this result is no longer kept; please start again")
        return task.status(max(0, seen))

    @app.delete("/api/tasks/{number}")
    async def cancel(number: int) -> dict[str, Any]:
        """Cancel a task."""
        tasks.cancel(number)
        return {}
