"""Reports of competitions: written when they are out of date, and served from their folders."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from fastapi import HTTPException
from fastapi.responses import FileResponse

from captrial.compete import Competition
from captrial.report.competition_page import gallery_script, write_competition_report
from captrial.studio.tasks import StudioTask

METRICS = ("cider", "spice")
KINDS = {".html": "text/html", ".svg": "image/svg+xml", ".csv": "text/csv"}


class CompetitionReports:
    """The reports of the competitions that the studio was started with; no other folder can be requested."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.competitions = [Competition.open(directory) for directory in directories]

    def titles(self) -> list[tuple[str, str]]:
        """Name and contents of each competition."""
        return [
            (found.directory.resolve().name, f"{len(found.models)} captioners, {found.manifest.image_count} images")
            for found in self.competitions
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
    """Whether the report is newer than its inputs; where the competition has no labels of its own, any report is."""
    page, directory = folder / "index.html", folder.parent
    if not page.is_file():
        return False
    inputs = [directory / "references.jsonl", directory / "competition.json", directory / "indescribable.json"]
    changed = max((path.stat().st_mtime for path in inputs if path.is_file()), default=0.0)
    return page.stat().st_mtime >= changed or not inputs[0].is_file()
