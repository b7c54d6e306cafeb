"""How far an annotation is: progress and time left, statistics of the captions (Wan 2022 Table 2), people's work."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, bindparam, func, select

from captrial.annotate.accounts import all_people
from captrial.annotate.database.schema import captions, people, votes
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.assignment import open_work
from captrial.annotate.rounds.base import AnnotationRound, statement_values
from captrial.annotate.rounds.registry import ROUNDS, open_rounds
from captrial.annotate.rounds.write import accepted_captions, count_words, indescribable_images
from captrial.annotate.settings import AnnotationSettings

MAX_AGE = 10.0  # seconds until a round is counted again

# Progress of rounds --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundProgress:
    """How much of a round is done, and how long an answer takes."""

    round: str
    done: int
    wanted: int
    seconds_each: float | None

    @property
    def hours_left(self) -> float | None:
        """Hours of one person's work."""
        return None if self.seconds_each is None else (self.wanted - self.done) * self.seconds_each / 3600


def progress(connection: Connection, settings: AnnotationSettings) -> list[RoundProgress]:
    """Progress of every round that is part of the experiment."""
    return [
        RoundProgress(round_.name, *round_.progress(connection, settings), round_.seconds_each(connection))
        for round_ in open_rounds(settings)
    ]


def missing_people(connection: Connection, settings: AnnotationSettings) -> list[str]:
    """What keeps the experiment from ending: rounds for which too few people are invited, in words."""
    found = []
    roles = Counter(person.role for person in all_people(connection))
    for round_ in open_rounds(settings):
        wanted, able = round_.people_wanted(settings), round_.people_able(settings, roles)
        if able < wanted:
            who = " or ".join(f"{role}s" for role in round_.roles_with(settings))
            others = " besides the writer" if round_.roles_with(settings) != round_.roles else ""
            found.append(
                f"the round “{round_.title}” needs {wanted} {who}{others}, you have {able}: invite {wanted - able} "
                "more, or lower the number in the settings"
            )
    return found


# Time left for a person ----------------------------------------------------------------------------------------------


@cache
def done_by_person(round_: AnnotationRound) -> Select[int]:
    """Count what :person has done in a round."""
    return round_.answers().where(round_.table.c.person == bindparam("person"))


_TEAM_SIZE = (
    select(func.count())
    .select_from(people)
    .where(people.c.role.in_(bindparam("roles", expanding=True)), people.c.qualified.is_not(None))
    .where(people.c.removed.is_(None))
)


@dataclass(frozen=True, slots=True)
class _TeamCount:
    """A round for all people: when it was counted, what is done, what is left in all and for each person."""

    at: float
    done: int = 0
    left: int = 0
    share: int = 0


@dataclass(frozen=True, slots=True)
class _PersonCount:
    """A round for one person: when it was counted, items in all, seconds for each."""

    at: float
    items: int = 0
    seconds_each: float | None = None


class TimeLeft:
    """Estimates what is left to do for a person.

    What a person has done is exact. What is left is counted for all people together, every few seconds: an estimate is
    wanted with every item.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._team: dict[str, _TeamCount] = {}
        self._persons: dict[tuple[str, int], _PersonCount] = {}

    def estimate(
        self, connection: Connection, round_: AnnotationRound, person: int, settings: AnnotationSettings, done: int
    ) -> dict[str, Any]:
        """About how many items and minutes are left for this person, and what is done and left for all together."""
        team = self._count(connection, round_, settings)
        own = self._persons.get((round_.name, person), _PersonCount(-math.inf))
        if self.store.clock() - own.at > 3 * MAX_AGE:
            seconds_each = _recent_seconds(connection, round_, person)
            own = _PersonCount(self.store.clock(), done + team.share, seconds_each)
            self._persons[round_.name, person] = own
        left = max(own.items - done, 1)
        minutes = None if own.seconds_each is None else round(left * own.seconds_each / 60, 1)
        return {"left": left, "minutes": minutes, "together": {"done": team.done, "left": team.left}}

    def _count(self, connection: Connection, round_: AnnotationRound, settings: AnnotationSettings) -> _TeamCount:
        found = self._team.get(round_.name, _TeamCount(-math.inf))
        if self.store.clock() - found.at > MAX_AGE:
            work = open_work(connection, round_.work(), statement_values(settings, person=0))
            members = connection.execute(_TEAM_SIZE, {"roles": round_.roles_with(settings)}).scalar_one()
            done = int(connection.execute(round_.answers()).scalar_one())
            share = min(work.items, math.ceil(work.answers / max(members, 1)))
            found = _TeamCount(self.store.clock(), done, work.answers, share)
            self._team[round_.name] = found
        return found


def _recent_seconds(connection: Connection, round_: AnnotationRound, person: int) -> float | None:
    """Seconds this person takes for an item: the median of the last 20."""
    seconds = connection.execute(_recent_statement(round_), {"person": person}).scalars().all()
    return median(seconds) if seconds else None


@cache
def _recent_statement(round_: AnnotationRound) -> Select[float]:
    table = round_.table
    own = select(table.c.seconds).where(table.c.person == bindparam("person"), table.c.seconds.is_not(None))
    return own.order_by(table.c.created.desc()).limit(20)


# Statistics ----------------------------------------------------------------------------------------------------------


def statistics(connection: Connection, settings: AnnotationSettings) -> dict[str, Any]:
    """Wan 2022 Table 2 over the accepted captions; discarded captions, replaced images and the agreement of votes."""
    references = accepted_captions(connection, settings)
    counts = [len(texts) for texts in references.values()]
    words = [count_words(caption) for texts in references.values() for caption in texts]
    states = Counter(connection.execute(select(captions.c.state)).scalars())
    return {
        "images": len(counts),
        "refs": float(np.mean(counts)) if counts else None,
        "words": float(np.mean(words)) if words else None,
        "max_refs": max(counts, default=None),
        "min_refs": min(counts, default=None),
        "max_words": max(words, default=None),
        "min_words": min(words, default=None),
        "discarded": states["discarded"],
        "replaced_images": len(indescribable_images(connection, settings)),
        "vote_agreement": krippendorff_alpha(_votes_per_caption(connection)),
    }


def annotator_statistics(connection: Connection) -> list[dict[str, Any]]:
    """Each person's work: number of items, median seconds, discarded captions, whether they stand out, and why.

    After five items, someone stands out whose median time is under a third or over three times the median of all, or
    more than a third of whose captions were discarded.
    """
    times: dict[int, list[float | None]] = defaultdict(list)  # seconds, where they are known
    for round_ in ROUNDS.values():
        for person, seconds in connection.execute(select(round_.table.c.person, round_.table.c.seconds)):
            times[person].append(seconds)
    states: dict[int, Counter[str]] = defaultdict(Counter)
    for person, state in connection.execute(select(captions.c.person, captions.c.state)):
        states[person][state] += 1
    usual = median([second for seconds in times.values() for second in seconds if second is not None] or [0.0])
    found = []
    for member in all_people(connection):
        timed = [second for second in times[member.id] if second is not None]
        why = _reasons_to_stand_out(timed, usual, states[member.id])
        found.append(
            {
                "id": member.id,
                "name": member.name,
                "role": member.role,
                "qualified": member.qualified,
                "items": len(times[member.id]),
                "seconds": median(timed) if timed else None,
                "discarded": states[member.id]["discarded"],
                "stands_out": bool(why),
                "why": why,
            }
        )
    return found


def _reasons_to_stand_out(timed: Sequence[float], usual: float, states: Counter[str]) -> str:
    ratio = median(timed) / usual if len(timed) >= 5 and usual > 0 else 1.0
    written, discarded = states.total(), states["discarded"]
    reasons = {
        "much faster than the others": ratio < 1 / 3,
        "much slower than the others": ratio > 3,
        "many captions discarded": written >= 5 and discarded > written / 3,
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def krippendorff_alpha(table: Sequence[Sequence[int]]) -> float | None:
    """Krippendorff's alpha for nominal votes; `table[item]` are the votes on one item, any number of them.

    1 where everybody always agrees; None where no item has two votes.
    """
    items = [votes for votes in table if len(votes) >= 2]
    if not items:
        return None
    values = sorted({vote for votes in items for vote in votes})
    place = {value: index for index, value in enumerate(values)}
    coincidence: NDArray[np.float64] = np.zeros((len(values), len(values)))
    for votes_of_item in items:
        counts = np.bincount([place[vote] for vote in votes_of_item], minlength=len(values)).astype(float)
        coincidence += (np.outer(counts, counts) - np.diag(counts)) / (len(votes_of_item) - 1)
    totals = coincidence.sum(0)
    expected = (totals.sum() ** 2 - (totals**2).sum()) / (totals.sum() - 1)
    observed = coincidence.sum() - np.trace(coincidence)
    return 1.0 if expected == 0 else float(1 - observed / expected)


def _votes_per_caption(connection: Connection) -> list[list[int]]:
    table: dict[int, list[int]] = defaultdict(list)
    for row in connection.execute(select(votes.c.caption, votes.c.right)):
        table[row.caption].append(int(row.right))
    return list(table.values())
