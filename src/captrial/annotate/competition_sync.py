"""Keeps the annotation database and the competition's directory in step, in both directions.

In: the images that `captrial compete select` has selected become the images to describe. Out: `references.jsonl` and
`judgements.jsonl`, which `captrial compete rank` reads. These files are derived from the database and written whole, so
they can be made again at any time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from sqlalchemy import Connection, select

from captrial.annotate.database.schema import images
from captrial.annotate.rounds.base import Answer
from captrial.annotate.rounds.registry import ROUNDS
from captrial.annotate.rounds.write import indescribable_images
from captrial.annotate.settings import AnnotationSettings
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import MANIFEST
from captrial.files import atomic_write

INTERVAL = 1.0  # seconds between two checks
REST = 20  # times as long as the work took: it slows down the people who work meanwhile
_log = logging.getLogger(__name__)


class DirectorySync:
    """A thread that calls `write` after `schedule`, and `reload` after the competition has changed.

    `reload` returns whether it could be done; otherwise it is tried again.
    """

    def __init__(self, directory: Path, write: Callable[[], None], reload: Callable[[], bool]) -> None:
        self.directory, self._write, self._reload = directory, write, reload
        self.closed = threading.Event()
        self._stale = threading.Event()
        self._seen = self._modification_times()
        self._thread = threading.Thread(target=self._run, name="directory sync", daemon=True)
        self._thread.start()

    def schedule(self) -> None:
        """Write the files at the next check."""
        self._stale.set()

    def close(self) -> None:
        """Finish what was begun, and stop."""
        self.closed.set()
        self._thread.join()

    def _run(self) -> None:
        rest = INTERVAL
        while not self.closed.wait(rest):
            begun = time.perf_counter()
            try:
                self._check()
                rest = max(INTERVAL, REST * (time.perf_counter() - begun))
            except Exception:  # a full disk or a database that restarts: try again later
                _log.exception("could not bring the competition's files up to date; trying again")
                rest = INTERVAL

    def _check(self) -> None:
        times = self._modification_times()
        if times != self._seen and self._reload():
            self._seen = times
        if self._stale.is_set():
            self._stale.clear()
            try:
                self._write()
            except BaseException:
                self._stale.set()
                raise

    def _modification_times(self) -> list[int]:
        """Change when a model is added and when images are selected: both write whole files and rename them."""
        paths = (self.directory / MANIFEST, self.directory / "selection")
        return [path.stat().st_mtime_ns for path in paths if path.exists()]


def write_competition_files(connection: Connection, settings: AnnotationSettings, directory: Path) -> None:
    """Write the files of all rounds that have changed."""
    for round_ in ROUNDS.values():
        for name, lines in round_.competition_files(connection, settings).items():
            _write_lines(directory / name, lines)


def refresh_images(connection: Connection, competition: Competition, settings: AnnotationSettings) -> None:
    """Make active the images of the selections, without the indescribable ones and with their reserves."""
    selected = _selected_pairs(connection, competition, settings)
    known = {row.image: row for row in connection.execute(select(images))}
    for image in sorted(selected.keys() - known.keys()):
        connection.execute(images.insert().values(image=image, active=True, qualification=False))
    for image, row in known.items():
        if image in selected:  # an image of the qualification may have been selected since
            state = {"active": True, "qualification": False}
        else:
            state = {"active": row.active and row.qualification, "qualification": row.qualification}
        if state != {"active": row.active, "qualification": row.qualification}:
            connection.execute(images.update().where(images.c.id == row.id).values(**state))
    for round_ in ROUNDS.values():
        round_.refresh_items(connection, settings, selected)


def _selected_pairs(
    connection: Connection, competition: Competition, settings: AnnotationSettings
) -> dict[str, set[tuple[str, str]]]:
    """The pairs of models for which each image is selected."""
    refused = frozenset(indescribable_images(connection, settings))
    ours = frozenset(connection.execute(select(images.c.image)).scalars())
    bad = refused | (competition.indescribable() - ours)  # about images shown here, the votes here decide
    found: dict[str, set[tuple[str, str]]] = {}
    for pair in competition.selected_pairs():
        active = competition.selection(*pair, bad=bad)
        for image in active.images:
            found.setdefault(image, set()).add(active.models)
    return found


def _write_lines(path: Path, lines: list[Answer]) -> None:
    content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    if not path.exists() or path.read_bytes() != content:
        atomic_write(path, content)
