"""The rounds of the experiment: writing, inspecting, judging. Each submission is one transaction.

What an item still needs is computed from what people did, never kept beside it: a picture needs writers until enough
sentences were written and enough of them stand; a sentence needs inspectors until enough have voted or it is discarded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from captrial.annotate.assignment import Need
from captrial.annotate.schema import duels, judgements, pictures, refusals, sentences, votes
from captrial.annotate.settings import Settings

ROUNDS = ("write", "inspect", "judge")
STANDING = ("live", "discarded")  # sentences that count as written


@dataclass
class PictureState:
    """What was done about a picture."""

    written: int = 0  # sentences, discarded ones included
    live: int = 0
    refusals: int = 0
    people: set[int] = field(default_factory=set)  # who wrote or refused

    def missing(self, settings: Settings) -> int:
        """How many more people are needed to describe it."""
        first = settings.writers - self.written
        return first if first > 0 else max(0, settings.min_sentences - self.live)


def picture_states(connection: Connection) -> dict[int, PictureState]:
    """The state of every active picture."""
    active = select(pictures.c.id).where(pictures.c.active, ~pictures.c.qualification)
    states = {number: PictureState() for number in connection.execute(active).scalars()}
    for row in connection.execute(select(sentences.c.picture, sentences.c.person, sentences.c.state)):
        if row.picture in states:
            state = states[row.picture]
            state.written += row.state in STANDING
            state.live += row.state == "live"
            state.people.add(row.person)
    for picture, person in connection.execute(select(refusals.c.picture, refusals.c.person)):
        if picture in states:
            states[picture].refusals += 1
            states[picture].people.add(person)
    return states


def write_needs(connection: Connection, settings: Settings, person: int) -> dict[int, Need]:
    """Pictures this person may describe, and what they need."""
    states = picture_states(connection).items()
    return {
        number: Need(state.missing(settings), state.written)
        for number, state in states
        if person not in state.people and state.missing(settings)
    }


def inspect_needs(connection: Connection, settings: Settings, person: int) -> dict[int, Need]:
    """Sentences this person may inspect: live, not their own, of pictures whose writing is done."""
    if not settings.inspectors:
        return {}
    done = {number for number, state in picture_states(connection).items() if state.written >= settings.writers}
    cast: dict[int, set[int]] = defaultdict(set)
    for row in connection.execute(select(votes.c.sentence, votes.c.person)):
        cast[row.sentence].add(row.person)
    rows = connection.execute(
        select(sentences.c.id, sentences.c.picture, sentences.c.person).where(sentences.c.state == "live")
    )
    return {
        row.id: Need(settings.inspectors - len(cast[row.id]), len(cast[row.id]))
        for row in rows
        if row.picture in done
        and row.person != person
        and person not in cast[row.id]
        and len(cast[row.id]) < settings.inspectors
    }


def judge_needs(connection: Connection, settings: Settings, person: int) -> dict[int, Need]:
    """Pairs of captions this person may compare."""
    if not settings.judges:
        return {}
    cast: dict[int, set[int]] = defaultdict(set)
    for row in connection.execute(select(judgements.c.duel, judgements.c.person)):
        cast[row.duel].add(row.person)
    open_duels = select(duels.c.id).join(pictures, pictures.c.id == duels.c.picture).where(pictures.c.active)
    return {
        duel: Need(settings.judges - len(cast[duel]), len(cast[duel]))
        for duel in connection.execute(open_duels).scalars()
        if person not in cast[duel] and len(cast[duel]) < settings.judges
    }


def discard_if_wrong(connection: Connection, settings: Settings, sentence: int) -> bool:
    """Discard a sentence that enough inspectors called wrong."""
    wrong = connection.execute(
        select(func.count()).select_from(votes).where(votes.c.sentence == sentence, ~votes.c.right)
    ).scalar_one()
    if wrong < settings.discards:
        return False
    connection.execute(sentences.update().where(sentences.c.id == sentence).values(state="discarded"))
    return True


def indescribable(connection: Connection, settings: Settings) -> list[str]:
    """Pictures that enough people could not describe."""
    rows = connection.execute(
        select(pictures.c.picture)
        .join(refusals, refusals.c.picture == pictures.c.id)
        .group_by(pictures.c.picture)
        .having(func.count() >= settings.refusals)
    )
    return sorted(rows.scalars())


def accepted(connection: Connection, settings: Settings) -> dict[str, list[str]]:
    """Sentences that stand: live, and inspected by enough people (or by nobody, where that round is skipped)."""
    cast = Counter(connection.execute(select(votes.c.sentence)).scalars())
    found: dict[str, list[str]] = defaultdict(list)
    rows = connection.execute(
        select(sentences.c.id, sentences.c.text, pictures.c.picture)
        .join(pictures, pictures.c.id == sentences.c.picture)
        .where(sentences.c.state == "live", pictures.c.active)
        .order_by(pictures.c.picture, sentences.c.id)
    )
    for row in rows:
        if cast[row.id] >= settings.inspectors:
            found[row.picture].append(row.text)
    return dict(found)
