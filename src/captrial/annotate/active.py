"""Which pictures are to be described: those of D as it stands, and their pairs of captions for the judges."""

from __future__ import annotations

from sqlalchemy import Connection, select

from captrial.annotate.rounds import indescribable
from captrial.annotate.schema import duels, pictures
from captrial.annotate.settings import Settings
from captrial.compete.competition import Competition

Wanted = dict[str, set[tuple[str, str]]]  # picture -> the pairs of models that it is to tell apart


def refresh(connection: Connection, competition: Competition, settings: Settings) -> None:
    """Make the active pictures those of D: selections, less the indescribable, plus their reserves."""
    wanted = _wanted(connection, competition, settings)
    known = {row.picture: row for row in connection.execute(select(pictures))}
    for picture in sorted(wanted.keys() - known.keys()):
        connection.execute(pictures.insert().values(picture=picture, active=True, qualification=False))
    for picture, row in known.items():
        if picture in wanted:  # one that people practised on may have been selected since
            now = {"active": True, "qualification": False}
        else:
            now = {"active": row.active and row.qualification, "qualification": row.qualification}
        if now != {"active": row.active, "qualification": row.qualification}:
            connection.execute(pictures.update().where(pictures.c.id == row.id).values(**now))
    if settings.judges:
        _refresh_duels(connection, wanted)


def _wanted(connection: Connection, competition: Competition, settings: Settings) -> Wanted:
    voted = frozenset(indescribable(connection, settings))
    ours = frozenset(connection.execute(select(pictures.c.picture)).scalars())
    bad = voted | (competition.indescribable() - ours)  # what we asked about, our votes decide
    wanted: Wanted = {}
    for pair in competition.selected_pairs():
        active = competition.selection(*pair, bad=bad)
        for picture in active.images:
            wanted.setdefault(picture, set()).add(active.models)
    return wanted


def _refresh_duels(connection: Connection, wanted: Wanted) -> None:
    numbers = {row.picture: row.id for row in connection.execute(select(pictures.c.id, pictures.c.picture))}
    known = {(row.picture, row.first, row.second) for row in connection.execute(select(duels))}
    for picture, pairs in sorted(wanted.items()):
        for first, second in sorted(pairs):
            if (numbers[picture], first, second) not in known:
                connection.execute(duels.insert().values(picture=numbers[picture], first=first, second=second))
