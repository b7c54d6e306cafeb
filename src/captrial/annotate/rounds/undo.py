"""Taking back the last thing one did, as long as nothing has come of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from captrial.annotate.database.schema import (
    images,
    judgements,
    refusals,
    sentences,
    votes,
)
from captrial.errors import StateError


def take_back(connection: Connection, round_: str, person: int) -> tuple[int, str | None]:
    """Delete this person's last submission of a round; returns its item, and its text where it has one."""
    return {"write": _sentence_or_refusal, "inspect": _vote, "judge": _judgement}[round_](connection, person)


def _sentence_or_refusal(connection: Connection, person: int) -> tuple[int, str | None]:
    mine = (sentences.c.person == person) & (sentences.c.state == "live")
    sentence = _last(connection, sentences, mine)
    refusal = _last(connection, refusals, refusals.c.person == person)
    if refusal is not None and (sentence is None or refusal.created > sentence.created):
        active = select(images.c.active).where(images.c.id == refusal.image)
        if not connection.execute(active).scalar_one():
            raise StateError("the image has been replaced already; this can no longer be taken back")
        own = (refusals.c.image == refusal.image) & (refusals.c.person == person)
        connection.execute(refusals.delete().where(own))
        return refusal.image, None
    if sentence is None:
        raise StateError("there is nothing to take back")
    if connection.execute(select(votes.c.person).where(votes.c.sentence == sentence.id)).first():
        raise StateError("somebody has inspected your last sentence already; it can no longer be taken back")
    connection.execute(sentences.delete().where(sentences.c.id == sentence.id))
    return sentence.image, sentence.text


def _vote(connection: Connection, person: int) -> tuple[int, str | None]:
    vote = _last(connection, votes, votes.c.person == person)
    if vote is None:
        raise StateError("there is nothing to take back")
    state = connection.execute(select(sentences.c.state).where(sentences.c.id == vote.sentence)).scalar_one()
    if state != "live":  # its image may have been reopened, and somebody may be writing
        raise StateError("the sentence has been discarded; your last vote can no longer be taken back")
    connection.execute(votes.delete().where(votes.c.sentence == vote.sentence, votes.c.person == person))
    return vote.sentence, None


def _judgement(connection: Connection, person: int) -> tuple[int, str | None]:
    last = _last(connection, judgements, judgements.c.person == person)
    if last is None:
        raise StateError("there is nothing to take back")
    connection.execute(judgements.delete().where(judgements.c.duel == last.duel, judgements.c.person == person))
    return last.duel, None


def _last(connection: Connection, table: Any, condition: Any) -> Any:
    return connection.execute(select(table).where(condition).order_by(table.c.created.desc()).limit(1)).one_or_none()
