"""The studio as a web application: one page, tasks that it follows, and the reports of competitions."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from captrial.attribution.methods.registry import METHODS, explain_methods
from captrial.attribution.page import source
from captrial.compete import Competition
from captrial.compete.storage.labels import LABEL_FILES
from captrial.folders import CHECKSUMS
from captrial.html import Templates
from captrial.report.competition_page import gallery_script, write_competition_report
from captrial.studio.image_explainer import MAX_BYTES, ImageExplainer
from captrial.studio.tasks import StudioTask, TaskQueue
from captrial.version import __version__
from captrial.vision.registry import DEFAULT_DETECTOR
from captrial.web.security import protect
from captrial.web.server import mount_static, render_error

# Reports of competitions: written when they are out of date, and served from their folders.


METRICS = ("cider", "spice")
KINDS = {".html": "text/html", ".svg": "image/svg+xml", ".csv": "text/csv"}


class CompetitionReports:
    """The reports of the competitions that the studio was started with; no other folder can be requested."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.competitions = [Competition.open(directory) for directory in directories]

    def titles(self) -> list[tuple[str, str]]:
        """Name and contents of each competition."""
        found = [Competition.open(competition.directory) for competition in self.competitions]  # as they are now
        return [
            (one.directory.resolve().name, f"{len(one.models)} captioners, {one.manifest.image_count} images")
            for one in found
        ]

    def directory(self, number: int) -> Path:
        """The folder of the report of a competition."""
        if not 0 <= number < len(self.competitions):
            raise HTTPException(404, "there is no such competition; start the studio with --competition DIRECTORY")
        return self.competitions[number].directory / "report"

    def write(self, task: StudioTask, number: int) -> None:
        """Write the report, unless it is up to date."""
        task.begin("reading the competition")
        folder = self.directory(number)
        competition = Competition.open(folder.parent)
        if not _is_fresh(folder):
            task.begin("ranking the captioners and drawing the gallery")
            write_competition_report(competition, competition.labels(), METRICS, folder)
        task.add_result({"address": f"/competition/{number}/index.html"})

    def serve(self, number: int, name: str) -> FileResponse:
        """A file of a report: pages, figures and tables, nothing else and nothing outside the folder."""
        folder = self.directory(number).resolve()
        path = (folder / name).resolve()
        if path.suffix not in KINDS or not path.is_relative_to(folder) or not path.is_file():
            raise HTTPException(404, "there is no such page; please open the competition again in the studio")
        headers = {"Content-Security-Policy": report_policy(), "Cache-Control": "no-store"}
        return FileResponse(path, media_type=KINDS[path.suffix], headers=headers)


def report_policy() -> str:
    """The Content-Security-Policy of a report: its one inline script is allowed by its hash, no other script is."""
    digest = base64.b64encode(hashlib.sha256(gallery_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _is_fresh(folder: Path) -> bool:
    """Whether the report is newer than its inputs; `checksums.json` changes with models and selections."""
    page, directory = folder / "index.html", folder.parent
    if not page.is_file():
        return False
    inputs = [directory / name for name in (CHECKSUMS, "competition.json", *LABEL_FILES)]
    changed = max((path.stat().st_mtime_ns for path in inputs if path.is_file()), default=0)
    return page.stat().st_mtime_ns >= changed


HOSTS = ["127.0.0.1", "localhost"]  # any other host name is refused: it could be DNS rebinding
_templates = Templates("captrial.studio", "captrial.web")


def create_app(
    models: Sequence[str] = (), competitions: Sequence[Path] = (), regions: str = DEFAULT_DETECTOR
) -> FastAPI:
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
