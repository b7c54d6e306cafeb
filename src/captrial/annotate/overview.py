"""How an annotation stands: progress, time left, agreement, people's speed, and the statistics of Wan 2022 Table 2."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, Connection, Select, Table, func, select

from captrial.annotate.accounts import everybody
from captrial.annotate.assignment import what_is_open
from captrial.annotate.database.schema import (
    duels,
    images,
    judgements,
    sentences,
    votes,
)
from captrial.annotate.rounds.rounds import (
    STANDING,
    accepted,
    given,
    indescribable,
    write_work,
)
from captrial.annotate.settings import Settings
from captrial.annotate.writing_rules import count_words


@dataclass(frozen=True)
class Progress:
    """Of one round: how much is done and how long the rest takes at the pace so far."""

    round: str
    done: int
    wanted: int
    seconds_each: float | None

    @property
    def hours_left(self) -> float | None:
        """Hours of one person's work."""
        return None if self.seconds_each is None else (self.wanted - self.done) * self.seconds_each / 3600


def progress(connection: Connection, settings: Settings) -> list[Progress]:
    """Progress of every round that is part of the experiment."""
    stand = select(func.count()).select_from(sentences).join(images).where(sentences.c.state.in_(STANDING))
    written = connection.execute(stand.where(images.c.active, ~images.c.qualification)).scalar_one()
    missing = what_is_open(connection, write_work(), given(settings, person=0)).work
    found = [Progress("write", written, written + missing, _pace(connection, sentences))]
    if settings.inspectors:
        live = sentences.c.state == "live"
        cast = _people_on(connection, votes.c.sentence, select(sentences.c.id).join(images).where(live))
        wanted = settings.inspectors * (len(cast) + missing)
        done = sum(min(people, settings.inspectors) for people in cast)
        found.append(Progress("inspect", done, wanted, _pace(connection, votes)))
    if settings.judges:
        cast = _people_on(connection, judgements.c.duel, select(duels.c.id).join(images))
        done = sum(min(people, settings.judges) for people in cast)
        found.append(Progress("judge", done, settings.judges * len(cast), _pace(connection, judgements)))
    return found


def _people_on(connection: Connection, item: Column[int], items: Select[int]) -> list[int]:
    """How many people have done each of these items of active images."""
    (number,) = items.selected_columns
    people = select(func.count()).select_from(item.table).where(item == number).scalar_subquery()
    return list(connection.execute(items.with_only_columns(people).where(images.c.active)).scalars())


def statistics(connection: Connection, settings: Settings) -> dict[str, Any]:
    """Wan 2022 Table 2, over the sentences that stand, and what happened on the way."""
    references = accepted(connection, settings)
    counts = [len(captions) for captions in references.values()]
    words = [count_words(caption) for captions in references.values() for caption in captions]
    states = Counter(connection.execute(select(sentences.c.state)).scalars())
    return {
        "images": len(counts),
        "refs": float(np.mean(counts)) if counts else None,
        "words": float(np.mean(words)) if words else None,
        "max_refs": max(counts, default=None),
        "min_refs": min(counts, default=None),
        "max_words": max(words, default=None),
        "min_words": min(words, default=None),
        "discarded": states["discarded"],
        "replaced_images": len(indescribable(connection, settings)),
        "vote_agreement": krippendorff(_vote_table(connection)),
    }


def speeds(connection: Connection) -> list[dict[str, Any]]:
    """Each person's work: how many, the median seconds, discarded sentences, whether they stand out, and why.

    Someone stands out whose median time is under a third or over three times the median of all, or more than a third
    of whose sentences were discarded; after five of them.
    """
    work: dict[int, list[float | None]] = defaultdict(list)  # seconds, where they are known
    written, discarded = Counter[int](), Counter[int]()
    for row in connection.execute(select(sentences.c.person, sentences.c.seconds, sentences.c.state)):
        work[row.person].append(row.seconds)
        written[row.person] += 1
        discarded[row.person] += row.state == "discarded"
    for table in (votes, judgements):
        for person, seconds in connection.execute(select(table.c.person, table.c.seconds)):
            work[person].append(seconds)
    usual = median([second for seconds in work.values() for second in seconds if second is not None] or [0.0])
    found = []
    for member in everybody(connection):
        times = work[member.id]
        timed = [second for second in times if second is not None]
        own = median(timed) if timed else None
        pace = own / usual if own is not None and len(timed) >= 5 and usual > 0 else 1.0
        reasons = {
            "much faster than the others": pace < 1 / 3,
            "much slower than the others": pace > 3,
            "many sentences discarded": written[member.id] >= 5 and discarded[member.id] > written[member.id] / 3,
        }
        why = ", ".join(reason for reason, holds in reasons.items() if holds)
        found.append(
            {
                "id": member.id,
                "name": member.name,
                "role": member.role,
                "qualified": member.qualified,
                "items": len(times),
                "seconds": own,
                "discarded": discarded[member.id],
                "stands_out": bool(why),
                "why": why,
            }
        )
    return found


def krippendorff(table: Sequence[Sequence[int]]) -> float | None:
    """Krippendorff's alpha for nominal votes: `table[item]` are the votes on one item (any number of them).

    None where nothing can be compared; 1 where everybody always agrees.
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


def _vote_table(connection: Connection) -> list[list[int]]:
    table: dict[int, list[int]] = defaultdict(list)
    for row in connection.execute(select(votes.c.sentence, votes.c.right)):
        table[row.sentence].append(int(row.right))
    return list(table.values())


def _pace(connection: Connection, table: Table) -> float | None:
    seconds = list(connection.execute(select(table.c.seconds).where(table.c.seconds.is_not(None))).scalars())
    return median(seconds) if seconds else None
