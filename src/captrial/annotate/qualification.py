"""Round 0: people describe pictures that have known good captions and learn the rules by doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from captrial.annotate.people import Person
from captrial.annotate.rules import RULES, check
from captrial.annotate.schema import people, pictures, trials
from captrial.annotate.settings import read_settings
from captrial.annotate.store import Store
from captrial.errors import InputError, StateError

_KEY = "qualification"  # the setting that holds the known good captions


def set_pictures(
    store: Store, connection: Connection, good: Mapping[str, Sequence[str]], by: int | None = None
) -> None:
    """Use these pictures with their known good captions; none means that everybody is qualified."""
    connection.execute(pictures.update().where(pictures.c.qualification).values(active=False))
    known = {row.picture: row for row in connection.execute(select(pictures))}
    for picture, captions in good.items():
        if not captions:
            raise InputError(f"picture {picture} of the qualification has no known good caption")
        if picture in known and not known[picture].qualification:
            raise InputError(f"picture {picture} is in the competition; the qualification needs pictures of its own")
        if picture in known:
            connection.execute(pictures.update().where(pictures.c.picture == picture).values(active=True))
        else:
            connection.execute(pictures.insert().values(picture=picture, active=True, qualification=True))
    store.set_setting(connection, _KEY, {picture: list(captions) for picture, captions in good.items()})
    store.note(connection, by, "qualification", f"{len(good)} pictures")


def next_trial(store: Store, connection: Connection, person: Person) -> dict[str, Any]:
    """The next picture this person has not described; how they stand."""
    done = {row.picture: row.good for row in connection.execute(select(trials).where(trials.c.person == person.id))}
    numbers = connection.execute(
        select(pictures.c.id).where(pictures.c.qualification, pictures.c.active).order_by(pictures.c.id)
    )
    left = [number for number in numbers.scalars() if number not in done]
    settings = read_settings(store, connection)
    return {
        "item": left[0] if left else None,
        "picture": left[0] if left else None,
        "left": len(left),
        "good": sum(done.values()),
        "done": len(done),
        "pass_mark": settings.pass_mark,
        "qualified": person.qualified,
    }


def known_captions(store: Store, connection: Connection, item: int) -> list[str]:
    """The known good captions of a picture of the qualification."""
    asked = select(pictures.c.picture).where(pictures.c.id == item, pictures.c.qualification, pictures.c.active)
    name = connection.execute(asked).scalar_one_or_none()
    known: dict[str, list[str]] = store.get_setting(connection, _KEY, {})
    if name not in known:
        raise InputError(f"picture {item} is not part of the qualification")
    return known[name]


def mark(text: str, known: Sequence[str]) -> list[str]:
    """What could be better about a sentence; nothing where it is good."""
    hints = [hint.text for hint in check(text)]
    if not _names_something(text, known):
        hints.append(f"{RULES[0]} Others wrote, for example: “{known[0]}”")
    return hints


def take(
    store: Store, connection: Connection, person: Person, item: int, text: str, hints: Sequence[str]
) -> dict[str, Any]:
    """Keep a sentence with its marks, and qualify the person when all pictures are described well enough."""
    known = known_captions(store, connection, item)
    again = select(trials).where(trials.c.picture == item, trials.c.person == person.id)
    if connection.execute(again).first():
        raise StateError("you have described this picture already")
    values = {"picture": item, "person": person.id, "text": text, "good": not hints, "created": store.clock()}
    connection.execute(trials.insert().values(**values))
    standing = next_trial(store, connection, person)
    if standing["left"] == 0:
        passed = standing["good"] >= standing["pass_mark"] * standing["done"]
        if passed:
            qualify(store, connection, person.id)
        else:  # another try, with the same pictures: what was learnt should count
            connection.execute(trials.delete().where(trials.c.person == person.id))
        standing = {**standing, "qualified": passed, "failed": not passed}
    return {"good": not hints, "hints": list(hints), "example": known[0], "standing": standing}


def qualify(store: Store, connection: Connection, person: int, by: int | None = None) -> None:
    """The person may take part (the lead may say so without a test)."""
    connection.execute(people.update().where(people.c.id == person).values(qualified=store.clock()))
    store.note(connection, by if by is not None else person, "qualified", f"person {person}")


def is_needed(connection: Connection) -> bool:
    """Whether there is a qualification at all."""
    found = connection.execute(select(pictures.c.id).where(pictures.c.qualification, pictures.c.active)).first()
    return found is not None


def _names_something(text: str, known: Sequence[str]) -> bool:
    """Whether the sentence names at least one thing that the known good captions name."""
    from captrial.language.nouns import nouns  # the parser takes seconds to load: not when the server starts

    said, *expected = nouns([text, *known])
    return bool(set(said) & {noun for caption in expected for noun in caption})
