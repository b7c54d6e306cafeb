"""Which images are to be described: those of D as it stands, and their pairs of captions for the judges."""

from __future__ import annotations

from sqlalchemy import Connection, select

from captrial.annotate.database.schema import duels, images
from captrial.annotate.rounds.rounds import indescribable
from captrial.annotate.settings import Settings
from captrial.compete.competition import Competition

Wanted = dict[str, set[tuple[str, str]]]  # image -> the pairs of models that it is to tell apart


def refresh(connection: Connection, competition: Competition, settings: Settings) -> None:
    """Make the active images those of D: selections, less the indescribable, plus their reserves."""
    wanted = _wanted(connection, competition, settings)
    known = {row.image: row for row in connection.execute(select(images))}
    for image in sorted(wanted.keys() - known.keys()):
        connection.execute(images.insert().values(image=image, active=True, qualification=False))
    for image, row in known.items():
        if image in wanted:  # one that people practised on may have been selected since
            now = {"active": True, "qualification": False}
        else:
            now = {"active": row.active and row.qualification, "qualification": row.qualification}
        if now != {"active": row.active, "qualification": row.qualification}:
            connection.execute(images.update().where(images.c.id == row.id).values(**now))
    if settings.judges:
        _refresh_duels(connection, wanted)


def _wanted(connection: Connection, competition: Competition, settings: Settings) -> Wanted:
    voted = frozenset(indescribable(connection, settings))
    ours = frozenset(connection.execute(select(images.c.image)).scalars())
    bad = voted | (competition.indescribable() - ours)  # what we asked about, our votes decide
    wanted: Wanted = {}
    for pair in competition.selected_pairs():
        active = competition.selection(*pair, bad=bad)
        for image in active.images:
            wanted.setdefault(image, set()).add(active.models)
    return wanted


def _refresh_duels(connection: Connection, wanted: Wanted) -> None:
    numbers = {row.image: row.id for row in connection.execute(select(images.c.id, images.c.image))}
    known = {(row.image, row.first, row.second) for row in connection.execute(select(duels))}
    for image, pairs in sorted(wanted.items()):
        for first, second in sorted(pairs):
            if (numbers[image], first, second) not in known:
                connection.execute(duels.insert().values(image=numbers[image], first=first, second=second))
