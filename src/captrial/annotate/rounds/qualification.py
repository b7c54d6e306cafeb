"""Round 0: people describe images that have known good captions and learn the rules by doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from captrial.annotate.accounts import Person
from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import images, people, trials
from captrial.annotate.settings import read_settings
from captrial.annotate.writing_rules import RULES, check
from captrial.errors import InputError, StateError

_KEY = "qualification"  # the setting that holds the known good captions


def set_images(store: Store, connection: Connection, good: Mapping[str, Sequence[str]], by: int | None = None) -> None:
    """Use these images with their known good captions; none means that everybody is qualified."""
    connection.execute(images.update().where(images.c.qualification).values(active=False))
    known = {row.image: row for row in connection.execute(select(images))}
    for image, captions in good.items():
        if not captions:
            raise InputError(f"image {image} of the qualification has no known good caption")
        if image in known and not known[image].qualification:
            raise InputError(f"image {image} is in the competition; the qualification needs images of its own")
        if image in known:
            connection.execute(images.update().where(images.c.image == image).values(active=True))
        else:
            connection.execute(images.insert().values(image=image, active=True, qualification=True))
    store.set_setting(connection, _KEY, {image: list(captions) for image, captions in good.items()})
    store.note(connection, by, "qualification", f"{len(good)} images")


def next_trial(store: Store, connection: Connection, person: Person) -> dict[str, Any]:
    """The next image this person has not described; how they stand."""
    done = {row.image: row.good for row in connection.execute(select(trials).where(trials.c.person == person.id))}
    numbers = connection.execute(
        select(images.c.id).where(images.c.qualification, images.c.active).order_by(images.c.id)
    )
    left = [number for number in numbers.scalars() if number not in done]
    settings = read_settings(store, connection)
    return {
        "item": left[0] if left else None,
        "image": left[0] if left else None,
        "left": len(left),
        "good": sum(done.values()),
        "done": len(done),
        "pass_mark": settings.pass_mark,
        "qualified": person.qualified,
    }


def known_captions(store: Store, connection: Connection, item: int) -> list[str]:
    """The known good captions of an image of the qualification."""
    asked = select(images.c.image).where(images.c.id == item, images.c.qualification, images.c.active)
    name = connection.execute(asked).scalar_one_or_none()
    known: dict[str, list[str]] = store.get_setting(connection, _KEY, {})
    if name not in known:
        raise InputError(f"image {item} is not part of the qualification")
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
    """Keep a sentence with its marks, and qualify the person when all images are described well enough."""
    known = known_captions(store, connection, item)
    again = select(trials).where(trials.c.image == item, trials.c.person == person.id)
    if connection.execute(again).first():
        raise StateError("you have described this image already")
    values = {"image": item, "person": person.id, "text": text, "good": not hints, "created": store.clock()}
    connection.execute(trials.insert().values(**values))
    standing = next_trial(store, connection, person)
    if standing["left"] == 0:
        passed = standing["good"] >= standing["pass_mark"] * standing["done"]
        if passed:
            qualify(store, connection, person.id)
        else:  # another try, with the same images: what was learnt should count
            connection.execute(trials.delete().where(trials.c.person == person.id))
        standing = {**standing, "qualified": passed, "failed": not passed}
    return {"good": not hints, "hints": list(hints), "example": known[0], "standing": standing}


def qualify(store: Store, connection: Connection, person: int, by: int | None = None) -> None:
    """The person may take part (the lead may say so without a test)."""
    connection.execute(people.update().where(people.c.id == person).values(qualified=store.clock()))
    store.note(connection, by if by is not None else person, "qualified", f"person {person}")


def is_needed(connection: Connection) -> bool:
    """Whether there is a qualification at all."""
    found = connection.execute(select(images.c.id).where(images.c.qualification, images.c.active)).first()
    return found is not None


def _names_something(text: str, known: Sequence[str]) -> bool:
    """Whether the sentence names at least one thing that the known good captions name."""
    from captrial.language.nouns import nouns  # the parser takes seconds to load: not when the server starts

    said, *expected = nouns([text, *known])
    return bool(set(said) & {noun for caption in expected for noun in caption})
