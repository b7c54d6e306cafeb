"""A small competition with images of its own, people who annotate it, and their answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from captrial.annotate import accounts
from captrial.annotate.rounds.base import Answer
from captrial.annotate.rounds.inspect import VoteForm
from captrial.annotate.rounds.judge_round import JudgementForm
from captrial.annotate.rounds.write import CaptionForm, RefusalForm
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.annotate.web.sessions import WebContext
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings

IMAGES = 12
_keys = iter(range(10**9))
CAPTION = "a brown horse stands alone in a wide green field"
ANIMALS = ["dog", "cat", "horse", "cow", "bird", "sheep"]


def make_competition(
    directory: Path,
    k: int = 4,
    reserve: int = 4,
    images: int = IMAGES,
    names: tuple[str, ...] = ("model0", "model1", "model2"),
) -> Path:
    """Three models on some images; k images per pair."""
    source = directory / "source"
    (source / "images").mkdir(parents=True)
    files = {}
    for model, name in enumerate(names):
        captions = [
            {"image_id": f"p{n}.png", "caption": f"a {ANIMALS[(n * (model + 1)) % 6]} stands in field number {n}"}
            for n in range(images)
        ]
        files[name] = source / f"{name}.json"
        files[name].write_text(json.dumps(captions))
    for n in range(IMAGES):
        Image.new("RGB", (64, 48), (20 * n, 100, 200)).save(source / "images" / f"p{n}.png")
    for n in range(IMAGES, images):
        os.link(source / "images" / "p0.png", source / "images" / f"p{n}.png")
    competition = Competition.create(directory / "competition", files, images=source / "images")
    competition.select(SelectionSettings(k, reserve))
    return directory / "competition"


class Clock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def join(service: AnnotationService, name: str, role: str, ready: bool = True) -> tuple[accounts.Person, str]:
    """A person and their token; `ready` ones have consented and are qualified."""
    with service.store.change() as connection:
        person, token = accounts.invite(service.store, connection, name, role)
        if ready:
            accounts.consent(service.store, connection, person.id)
            accounts.qualify(service.store, connection, person.id)
        found = accounts.by_id(connection, person.id)
    assert found is not None
    return found, token


def submit_caption(service: AnnotationService, person: accounts.Person, item: int, text: str, key: str) -> Answer:
    return service.submit("write", person, CaptionForm(item=item, text=text, key=key))


def submit_refusal(service: AnnotationService, person: accounts.Person, item: int, reason: str, key: str) -> Answer:
    return service.submit("write", person, RefusalForm(item=item, reason=reason, key=key))


def submit_vote(
    service: AnnotationService, person: accounts.Person, item: int, right: bool, reason: str, key: str
) -> Answer:
    return service.submit("inspect", person, VoteForm(item=item, right=right, reason=reason, key=key))


def submit_judgement(
    service: AnnotationService,
    person: accounts.Person,
    item: int,
    winner: Literal["left", "right", "tie"],
    key: str,
) -> Answer:
    return service.submit("judge", person, JudgementForm(item=item, winner=winner, key=key))


def new_key() -> str:
    """A key that no other submission has."""
    return f"key-{next(_keys):08d}"


def write_everything(service: AnnotationService, count: int = 3) -> list[accounts.Person]:
    writers = [join(service, f"writer {n}", "annotator")[0] for n in range(count)]
    for person in writers:
        following = service.next("write", person)
        while following["item"] is not None:
            following = submit_caption(service, person, following["item"], f"{CAPTION} by {person.id}", new_key())[
                "next"
            ]
    return writers


def inspect_everything(service: AnnotationService, right: bool = True) -> None:
    for number in range(3):
        person = join(service, f"inspector {number}", "inspector")[0]
        following = service.next("inspect", person)
        while following["item"] is not None:
            following = submit_vote(service, person, following["item"], right, "", new_key())["next"]


def use_settings(service: AnnotationService, chosen: AnnotationSettings) -> None:
    with service.store.change() as connection:
        write_settings(service.store, connection, chosen)
        service.refresh_images(connection)


def context_of(client: TestClient) -> WebContext:
    assert isinstance(client.app, FastAPI)
    context: WebContext = client.app.state.context
    return context
