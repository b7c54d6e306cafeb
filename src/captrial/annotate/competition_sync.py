"""Keeps the annotation database and the competition's directory in step, in both directions.

In: the images that `captrial compete select` has selected become the images to describe, without those that were marked
by hand as indescribable. Out: `references.annotated.jsonl` and `judgements.annotated.jsonl`, which `captrial compete
rank` reads beside the labels that people wrote by hand. These files are derived from the database and written whole, so
they can be made again at any time; their first line says which database that is.

A database belongs to one competition, and the derived files of a directory to one database. Both are checked before
anything is written.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, select
from sqlalchemy.exc import DatabaseError

from captrial.annotate.database.connections import describe, sqlite_file
from captrial.annotate.database.schema import images
from captrial.annotate.database.transactions import DATABASE, Store
from captrial.annotate.rounds.registry import ROUNDS
from captrial.annotate.rounds.write import indescribable_images
from captrial.annotate.settings import AnnotationSettings
from captrial.compete.competition import Competition
from captrial.compete.storage.labels import (
    JUDGEMENTS,
    MARKS,
    REFERENCES,
    DerivedHead,
    check_origin,
    derived_name,
    read_derived,
    write_derived,
)
from captrial.compete.storage.manifest import MANIFEST
from captrial.errors import BusyError, CaptrialError, DamagedError, MismatchError, StateError
from captrial.folders import FolderVerifier, VerifiedFolder

INTERVAL = 1.0  # seconds between two checks
REST = 20  # times as long as the work took: it slows down the people who work meanwhile
_REMAKE = "`captrial annotate import`, from what `captrial annotate export` has written"
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
        while not self.closed.wait(rest) and self.directory.is_dir():  # whoever removes it wants no files either
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

    def _modification_times(self) -> list[int | None]:
        """Change when a model is added, when images are selected, and when somebody edits the labels by hand."""
        paths = (self.directory / name for name in (MANIFEST, "selection", REFERENCES, MARKS))
        return [path.stat().st_mtime_ns if path.exists() else None for path in paths]


def check_database(store: Store, competition: Competition) -> DerivedHead:
    """Check that a database belongs to a competition, and the derived files of its directory to the database.

    A database that belongs to no competition yet is given to this one. Returns the head of its derived files.
    """
    if store.read_only:
        with store.read() as connection:
            own = _identity(store, connection, competition)
    else:
        with store.change() as connection:
            own = _identity(store, connection, competition)
    for path in derived_files(competition.directory):
        found = read_derived(path)
        if found is not None:
            check_origin(path, found[0], own)
    return own


def verify_database(directory: Path | str) -> VerifiedFolder:
    """Check the SQLite database of a competition's directory without writing; problems are listed, not raised."""
    directory, problems = Path(directory), list[str]()
    path = directory / DATABASE
    try:
        with closing(Store.in_directory(directory, read_only=True)) as store:
            with store.read() as connection:
                found = connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()
            problems += [str(DamagedError(path, str(one), _REMAKE)) for one in found if one != "ok"]
            check_database(store, Competition.open(directory))
    except BusyError:
        raise
    except DatabaseError as error:
        problems.append(str(DamagedError(path, str(error.orig).strip(), _REMAKE)))
    except CaptrialError as error:
        problems.append(str(error))
    return VerifiedFolder(DATABASE_VERIFIER.name, 1, tuple(dict.fromkeys(problems)))


DATABASE_VERIFIER = FolderVerifier("annotation database", lambda folder: (folder / DATABASE).is_file(), verify_database)


def require_selection(competition: Competition) -> None:
    """Refuse a competition without selected images: there would be nothing to annotate."""
    if not competition.selected_pairs():
        raise StateError(
            f"{competition.directory}: no images are selected yet, so there is nothing to annotate; run `captrial "
            f"compete select {competition.directory}` first"
        )


def check_directory(directory: Path, database: str | None) -> None:
    """Refuse to make a new SQLite file in a directory that holds the labels of another database."""
    path = Path(directory, DATABASE) if database is None else sqlite_file(database)
    if path is not None and not path.exists():
        for file in derived_files(directory):
            found = read_derived(file)
            if found is not None:
                check_origin(file, found[0], DerivedHead("", f"{path.name}, which does not exist"))


def derived_files(directory: Path) -> list[Path]:
    """The derived files there may be."""
    return [directory / derived_name(name) for name in (REFERENCES, JUDGEMENTS)]


def _identity(store: Store, connection: Connection, competition: Competition) -> DerivedHead:
    where, known = describe(store.engine), store.get_setting(connection, "competition", None)
    if known is None:  # new, or of an earlier version: then its images tell
        chosen = select(images.c.image).where(~images.c.qualification)
        foreign = set(connection.execute(chosen).scalars()) - set(competition.pool.ids().to_pylist())
        if not foreign and not store.read_only:
            store.set_setting(connection, "competition", competition.manifest.id)
            store.set_setting(connection, "database", secrets.token_hex(8))
    else:
        foreign = set() if known == competition.manifest.id else {"its id"}
    if foreign:
        raise MismatchError(
            f"the annotation database {where} belongs to another competition than {competition.directory}; give "
            "--database with a database of its own, or the directory that belongs to it"
        )
    return DerivedHead(store.get_setting(connection, "database", ""), where)


def write_competition_files(
    connection: Connection, settings: AnnotationSettings, directory: Path, head: DerivedHead
) -> None:
    """Write the files of all rounds that have changed."""
    for round_ in ROUNDS.values():
        for name, lines in round_.competition_files(connection, settings).items():
            write_derived(directory / derived_name(name), head, lines)


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
    """The pairs of models for which each image is selected; none for an image of the pool's sample alone."""
    # not the derived file: it may be a second older than the votes
    bad = frozenset(indescribable_images(connection, settings)) | competition.indescribable(by_hand=True)
    found: dict[str, set[tuple[str, str]]] = {}
    for pair in competition.selected_pairs():
        active = competition.selection(*pair, bad=bad)
        for image in active.images:
            found.setdefault(image, set()).add(active.models)
    for image in competition.sampled_images():
        if image not in bad:
            found.setdefault(image, set())
    return found
