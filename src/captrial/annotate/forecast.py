"""What people want to know about their work: how much is done, how much is left, how long it takes.

Exact for what somebody did; about what is left, a count for all together that is a few seconds old is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from captrial.annotate.assignment import what_is_open
from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import (
    judgements,
    people,
    sentences,
    votes,
)
from captrial.annotate.rounds.rounds import (
    ROLES_OF,
    STANDING,
    WORK,
    given,
)
from captrial.annotate.settings import Settings

FRESH = 10.0  # seconds
TABLES = {"write": sentences, "inspect": votes, "judge": judgements}
_IN_ALL = {round_: select(func.count()).select_from(table) for round_, table in TABLES.items()}
_IN_ALL["write"] = _IN_ALL["write"].where(sentences.c.state.in_(STANDING))
DONE = {round_: counted.where(TABLES[round_].c.person == bindparam("person")) for round_, counted in _IN_ALL.items()}
_COLLEAGUES = (
    select(func.count())
    .select_from(people)
    .where(people.c.role.in_(bindparam("roles", expanding=True)), people.c.qualified.is_not(None))
    .where(people.c.removed.is_(None))
)
_PACE = {
    round_: select(table.c.seconds)
    .where(table.c.person == bindparam("person"), table.c.seconds.is_not(None))
    .order_by(table.c.created.desc())
    .limit(20)
    for round_, table in TABLES.items()
}


@dataclass(frozen=True, slots=True)
class _Together:
    """A round, for all people: when it was counted, what they did, what is left for them, and for each of them."""

    at: float
    done: int = 0
    left: int = 0
    share: int = 0


@dataclass(frozen=True, slots=True)
class _Own:
    """A person's round: when it was counted, items in all, seconds for each."""

    at: float
    items: int = 0
    pace: float | None = None


class Outlook:
    """Counts that are asked for with every item, and need not be made every time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._together: dict[str, _Together] = {}
        self._own: dict[tuple[str, int], _Own] = {}

    def left(self, connection: Connection, round_: str, person: int, settings: Settings, done: int) -> dict[str, Any]:
        """About how many items are left for this person and how many minutes that takes; and how all people stand."""
        together = self._counted(connection, round_, settings)
        own = self._own.get((round_, person), _Own(-math.inf))
        if self.store.clock() - own.at > 3 * FRESH:
            own = _Own(self.store.clock(), done + together.share, _pace(connection, round_, person))
            self._own[round_, person] = own
        left = max(own.items - done, 1)
        minutes = None if own.pace is None else round(left * own.pace / 60, 1)
        return {"left": left, "minutes": minutes, "together": {"done": together.done, "left": together.left}}

    def _counted(self, connection: Connection, round_: str, settings: Settings) -> _Together:
        found = self._together.get(round_, _Together(-math.inf))
        if self.store.clock() - found.at > FRESH:
            open_ = what_is_open(connection, WORK[round_](), given(settings, person=0))
            mates = connection.execute(_COLLEAGUES, {"roles": ROLES_OF[round_]}).scalar_one()
            done = int(connection.execute(_IN_ALL[round_]).scalar_one())
            share = min(open_.items, math.ceil(open_.work / max(mates, 1)))
            found = _Together(self.store.clock(), done, open_.work, share)
            self._together[round_] = found
        return found


def _pace(connection: Connection, round_: str, person: int) -> float | None:
    """Seconds this person takes for an item."""
    seconds = connection.execute(_PACE[round_], {"person": person}).scalars().all()
    return median(seconds) if seconds else None
