"""What the lead decides about an annotation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import lru_cache

import orjson
from sqlalchemy import Connection

from captrial.annotate.database.connection import Store
from captrial.errors import InputError

CONSENT = (
    "You will describe images, or check what others wrote, for a comparison of image captioning systems. "
    "What you write is stored with a number, not with your name, and may be published with the results. "
    "You can stop at any time, and ask the lead to remove everything you did."
)


@dataclass(frozen=True)
class Settings:
    """Numbers of Wan 2022's experiment, by default."""

    writers: int = 3  # people who describe an image
    refusals: int = 2  # "cannot be described" votes that replace an image
    inspectors: int = 3  # people who check a sentence; 0 skips that round
    discards: int = 2  # "wrong" votes that discard a sentence
    min_sentences: int = 2  # an image left with fewer is reopened
    judges: int = 0  # people who compare each pair of captions; 0 skips that round
    pass_mark: float = 0.7  # share of good captions in the qualification
    lease_minutes: float = 15.0
    consent: str = CONSENT

    def __post_init__(self) -> None:
        if self.writers < 1 or self.refusals < 1 or self.min_sentences < 1 or self.discards < 1:
            raise InputError("writers, refusals, discards and min_sentences are at least 1")
        if self.inspectors < 0 or self.judges < 0 or (self.inspectors and self.discards > self.inspectors):
            raise InputError("discards cannot be more than inspectors, and no number can be negative")
        if not 0 <= self.pass_mark <= 1 or self.lease_minutes <= 0:
            raise InputError("pass_mark is between 0 and 1, and lease_minutes more than 0")


def read_settings(store: Store, connection: Connection) -> Settings:
    """The settings as the lead left them."""
    return parse_settings(store.get_text(connection, "settings"))


@lru_cache(maxsize=16)
def parse_settings(kept: str | None) -> Settings:
    """Settings as the database keeps them; defaults where it keeps none."""
    kept = kept or "{}"
    known = {entry.name for entry in fields(Settings)}
    return Settings(**{name: value for name, value in orjson.loads(kept).items() if name in known})


def write_settings(store: Store, connection: Connection, changed: Settings, by: int | None = None) -> None:
    """Keep the settings, and note who changed them."""
    store.set_setting(connection, "settings", asdict(changed))
    store.note(connection, by, "settings", ", ".join(f"{k}={v}" for k, v in asdict(changed).items() if k != "consent"))
