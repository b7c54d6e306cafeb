"""What the lead can set for an annotation: how many people do what, limits, and the consent text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import Connection

from captrial.annotate.database.transactions import Store
from captrial.errors import InputError, damage_named

CONSENT = (
    "You will describe images, or check what others wrote, for a comparison of image captioning systems. "
    "What you write is stored with a number, not with your name, and may be published with the results. "
    "You can stop at any time, and ask the lead to remove everything you did."
)
MAX_CONSENT = 5000
_KINDS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str}


def _setting(default: Any, label: str, least: float = 1, most: float = 50, step: float = 1) -> Any:
    """A number with the label and the limits that the lead's page shows."""
    return field(default=default, metadata={"label": label, "least": least, "most": most, "step": step})


@dataclass(frozen=True)
class AnnotationSettings:
    """The settings of an annotation; by default those of the experiment of Wan 2022.

    The lead's page and the API take fields, labels and limits from here.
    """

    writers: int = _setting(3, "People who describe an image (0: no such round, nor inspection)", least=0)
    refusals: int = _setting(2, "“Cannot be described” votes that replace an image")
    inspectors: int = _setting(3, "People who inspect a caption (0: no such round)", least=0)
    annotators_inspect: int = _setting(1, "Annotators also inspect what others wrote (1: yes, 0: no)", 0, 1)
    discards: int = _setting(2, "“Wrong” votes that discard a caption")
    min_captions: int = _setting(2, "Fewer captions than this reopen an image")
    judges: int = _setting(0, "People who compare two captions (0: no such round)", least=0)
    pass_mark: float = _setting(0.7, "Share of good captions that passes the qualification", 0, 1, 0.05)
    lease_minutes: float = _setting(15.0, "Minutes before an item goes to somebody else", 0, 1440, 0.5)
    consent: str = CONSENT

    def __post_init__(self) -> None:
        if self.refusals < 1 or self.min_captions < 1 or self.discards < 1:
            raise InputError("refusals, discards and min_captions must be at least 1")
        if not self.writers and not self.judges:
            raise InputError("writers and judges cannot both be 0: people must have something to do")
        fewest = min(self.writers, self.inspectors, self.judges)
        if fewest < 0 or (self.inspectors and self.discards > self.inspectors):
            raise InputError("discards cannot be more than inspectors, and no number can be negative")
        if self.annotators_inspect not in (0, 1):
            raise InputError("annotators_inspect must be 0 or 1")
        if not 0 <= self.pass_mark <= 1 or not 0 < self.lease_minutes < math.inf:
            raise InputError("pass_mark must be between 0 and 1, and lease_minutes more than 0")

    @classmethod
    def number_fields(cls) -> list[Field[Any]]:
        """The fields that are numbers, with the label and the limits of each."""
        return [entry for entry in fields(cls) if entry.metadata]

    def numbers(self) -> list[tuple[str, str, float]]:
        """Name, label and value of every number."""
        return [(entry.name, entry.metadata["label"], getattr(self, entry.name)) for entry in self.number_fields()]


def parse_changes(changes: Sequence[str]) -> dict[str, float]:
    """NAME=NUMBER, as the command line takes changes of settings.

    >>> parse_changes(["writers=0", "pass_mark=0.8"])
    {'writers': 0, 'pass_mark': 0.8}
    """
    known = {entry.name: int if entry.type == "int" else float for entry in AnnotationSettings.number_fields()}
    found: dict[str, float] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in known:
            raise InputError(f"{change}: there is no setting {name!r}; the settings are {', '.join(known)}")
        try:
            found[name] = known[name](value)
        except ValueError:
            raise InputError(f"{change}: {value!r} is no {'whole ' if known[name] is int else ''}number") from None
    return found


def read_settings(store: Store, connection: Connection) -> AnnotationSettings:
    """The settings as the lead left them."""
    return parse_settings(store.get_text(connection, "settings"))


@lru_cache(maxsize=16)
def parse_settings(stored: str | None) -> AnnotationSettings:
    """Settings from the JSON in the database; defaults where there is none."""
    kinds = {entry.name: _KINDS[str(entry.type)] for entry in fields(AnnotationSettings)}
    with damage_named("the annotation database", "a copy of it", "its settings cannot be read"):
        found = orjson.loads(stored or "{}").items()
        return AnnotationSettings(**{name: kinds[name](value) for name, value in found if name in kinds})


def write_settings(store: Store, connection: Connection, changed: AnnotationSettings, by: int | None = None) -> None:
    """Store the settings, and note in the audit log who changed them."""
    store.set_setting(connection, "settings", asdict(changed))
    store.note(connection, by, "settings", ", ".join(f"{k}={v}" for k, v in asdict(changed).items() if k != "consent"))
