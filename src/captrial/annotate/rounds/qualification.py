"""The qualification: people describe images that have known good captions, and learn the rules by doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from captrial.annotate.accounts import Person, clean, qualify
from captrial.annotate.database.schema import images, practice_captions
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.base import Answer, BaseRound, require_consent
from captrial.annotate.rounds.write import MAX_CAPTION, RULES, check
from captrial.annotate.settings import read_settings
from captrial.errors import InputError, NotAllowedError, StateError

_SETTING = "qualification"  # the setting that holds the known good captions


class Qualification(BaseRound):
    """Comes before the rounds of the experiment. Its items are not assigned: everybody describes every image."""

    name = "qualification"
    title = "Practice"
    description = "Describe images with known good captions, with feedback after each."
    roles = ("annotator",)
    table = practice_captions

    @property
    def template(self) -> str:
        """The page of the writing round."""
        return "write.html"

    def page_values(self) -> dict[str, object]:
        """The page shows feedback instead of drafts and undo."""
        return {"rules": RULES, "practice": True}

    def check_role(self, person: Person) -> None:
        """Refuse a person who does not take part, or has not accepted the consent text."""
        if person.role not in self.roles:
            raise NotAllowedError(f"the qualification is not for the role {person.role}")
        require_consent(person)

    def next(self, store: Store, connection: Connection, person: Person) -> Answer:
        """The next image this person has not described, and how many of their captions were good."""
        self.check_role(person)
        own = select(practice_captions).where(practice_captions.c.person == person.id)
        done = {row.image: row.good for row in connection.execute(own)}
        numbers = connection.execute(
            select(images.c.id).where(images.c.qualification, images.c.active).order_by(images.c.id)
        )
        left = [number for number in numbers.scalars() if number not in done]
        return {
            "item": left[0] if left else None,
            "image": left[0] if left else None,
            "left": len(left),
            "good": sum(done.values()),
            "done": len(done),
            "pass_mark": read_settings(store, connection).pass_mark,
            "qualified": person.qualified,
        }

    def submit(self, store: Store, person: Person, item: int, text: str) -> Answer:
        """Check a caption and store it; qualifies the person when all images are described well enough."""
        self.check_role(person)
        text = clean(text, MAX_CAPTION, "a caption")
        with store.read() as connection:
            known = known_captions(store, connection, item)
        hints = find_hints(text, known)  # parses the captions: outside the transaction, which would make others wait
        with store.change() as connection:
            known = known_captions(store, connection, item)
            self._store_caption(store, connection, person, {"image": item, "text": text, "good": not hints})
            progress = self._finish(store, connection, person)
        return {"good": not hints, "hints": hints, "example": known[0], "progress": progress}

    def _store_caption(self, store: Store, connection: Connection, person: Person, caption: Answer) -> None:
        table = practice_captions
        again = select(table).where(table.c.image == caption["image"], table.c.person == person.id)
        if connection.execute(again).first():
            raise StateError("you have described this image already")
        connection.execute(table.insert().values(**caption, person=person.id, created=store.clock()))

    def _finish(self, store: Store, connection: Connection, person: Person) -> Answer:
        """After the last image: qualify the person, or let them try the same images again."""
        progress = self.next(store, connection, person)
        if progress["left"] == 0:
            passed = progress["good"] >= progress["pass_mark"] * progress["done"]
            if passed:
                qualify(store, connection, person.id)
            else:
                self.remove_person(connection, person.id)
            progress = {**progress, "qualified": passed, "failed": not passed}
        return progress


def set_images(store: Store, connection: Connection, good: Mapping[str, Sequence[str]], by: int | None = None) -> None:
    """Use these images with their known good captions; without any, everybody is qualified."""
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
    store.set_setting(connection, _SETTING, {image: list(captions) for image, captions in good.items()})
    store.note(connection, by, "qualification", f"{len(good)} images")


def is_needed(connection: Connection) -> bool:
    """Whether there are images to practise on."""
    found = connection.execute(select(images.c.id).where(images.c.qualification, images.c.active)).first()
    return found is not None


def known_captions(store: Store, connection: Connection, item: int) -> list[str]:
    """The known good captions of an image of the qualification."""
    name_of = select(images.c.image).where(images.c.id == item, images.c.qualification, images.c.active)
    name = connection.execute(name_of).scalar_one_or_none()
    known: dict[str, list[str]] = store.get_setting(connection, _SETTING, {})
    if name not in known:
        raise InputError(f"image {item} is not part of the qualification")
    return known[name]


def find_hints(text: str, known: Sequence[str]) -> list[str]:
    """What could be better about a caption; nothing where it is good."""
    hints = [hint.text for hint in check(text)]
    if not _shares_a_noun(text, known):
        hints.append(f"{RULES[0]} Others wrote, for example: “{known[0]}”")
    return hints


def _shares_a_noun(text: str, known: Sequence[str]) -> bool:
    """Whether the caption names at least one thing that the known good captions name."""
    from captrial.language.nouns import nouns  # the parser takes seconds to load: not when the server starts

    named, *expected = nouns([text, *known])
    return bool(set(named) & {noun for caption in expected for noun in caption})
