"""A small competition with images of its own, and people in its annotation room."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from captrial.annotate import accounts
from captrial.annotate.rounds.qualification import qualify
from captrial.annotate.service import Room
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings

IMAGES = 12
SENTENCE = "a brown horse stands alone in a wide green field"
ANIMALS = ["dog", "cat", "horse", "cow", "bird", "sheep"]


def make_competition(directory: Path, k: int = 4, reserve: int = 4, images: int = IMAGES) -> Path:
    """Three models on some images (the first twelve have files); k images a pair."""
    source = directory / "source"
    (source / "images").mkdir(parents=True)
    files = {}
    for model in range(3):
        captions = [
            {"image_id": f"p{n}.png", "caption": f"a {ANIMALS[(n * (model + 1)) % 6]} stands in field number {n}"}
            for n in range(images)
        ]
        files[f"model{model}"] = source / f"model{model}.json"
        files[f"model{model}"].write_text(json.dumps(captions))
    for n in range(IMAGES):
        Image.new("RGB", (64, 48), (20 * n, 100, 200)).save(source / "images" / f"p{n}.png")
    competition = Competition.create(directory / "competition", files, images=source / "images")
    competition.select(SelectionSettings(k, reserve))
    return directory / "competition"


class Clock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def join(room: Room, name: str, role: str, ready: bool = True) -> tuple[accounts.Person, str]:
    """A person and their token; `ready` ones have consented and are qualified."""
    with room.store.change() as connection:
        person, token = accounts.invite(room.store, connection, name, role)
        if ready:
            accounts.consent(room.store, connection, person.id)
            qualify(room.store, connection, person.id)
        found = accounts.by_id(connection, person.id)
    assert found is not None
    return found, token
