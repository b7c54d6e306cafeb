"""Competitions in the studio: their report is written when it is out of date, and served from its folder."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from fastapi import HTTPException
from fastapi.responses import FileResponse

from captrial.compete import Competition
from captrial.report.competition_page import gallery_script, write_competition_report
from captrial.studio.jobs import Job

METRICS = ("cider", "spice")
KINDS = {".html": "text/html", ".svg": "image/svg+xml", ".csv": "text/csv"}


class Rankings:
    """The competitions that were named when the studio was started; no other folder can be asked for."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.competitions = [Competition.open(directory) for directory in directories]

    def titles(self) -> list[tuple[str, str]]:
        """Name and contents of each."""
        return [
            (found.directory.resolve().name, f"{len(found.models)} captioners, {found.manifest.image_count} images")
            for found in self.competitions
        ]

    def directory(self, number: int) -> Path:
        """The folder of the report of a competition."""
        if not 0 <= number < len(self.competitions):
            raise HTTPException(404, "no such competition; start the studio with --competition DIRECTORY")
        return self.competitions[number].directory / "report"

    def prepare(self, job: Job, number: int) -> None:
        """Write the report, unless there is one that nothing has changed since."""
        job.begin("reading the competition")
        folder = self.directory(number)
        competition = Competition.open(folder.parent)
        if not _is_fresh(folder):
            job.begin("ranking the captioners and drawing the gallery")
            write_competition_report(competition, competition.labels(), METRICS, folder)
        job.hand_over({"address": f"/competition/{number}/index.html"})

    def serve(self, number: int, name: str) -> FileResponse:
        """A file of a report: pages, figures and tables, nothing else and nothing outside the folder."""
        folder = self.directory(number).resolve()
        path = (folder / name).resolve()
        if path.suffix not in KINDS or not path.is_relative_to(folder) or not path.is_file():
            raise HTTPException(404, "there is no such page; go back to the studio and open the competition again")
        headers = {"Content-Security-Policy": policy(), "Cache-Control": "no-store"}
        return FileResponse(path, media_type=KINDS[path.suffix], headers=headers)


def policy() -> str:
    """A report carries its styles and its one script in itself: the script runs by its fingerprint, no other does."""
    fingerprint = base64.b64encode(hashlib.sha256(gallery_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{fingerprint}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _is_fresh(folder: Path) -> bool:
    """Whether the report is newer than everything it is made of; without labels of its own, any report is."""
    page, directory = folder / "index.html", folder.parent
    if not page.is_file():
        return False
    inputs = [directory / "references.jsonl", directory / "competition.json", directory / "indescribable.json"]
    changed = max((path.stat().st_mtime for path in inputs if path.is_file()), default=0.0)
    return page.stat().st_mtime >= changed or not inputs[0].is_file()
