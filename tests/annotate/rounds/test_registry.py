"""A round that is added to the registry works everywhere: pages, assignment, answers, undo, progress, simulation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fastapi import FastAPI
from jinja2 import ChoiceLoader, DictLoader
from pydantic import Field
from sqlalchemy import Column, Connection, Float, ForeignKey, Integer, Row, Table, literal, select

from annotate.annotation_world import join, new_key
from annotate.conftest import signing_in
from captrial.annotate.database.schema import images, metadata
from captrial.annotate.rounds import QUALIFICATION, ROUNDS, get_round
from captrial.annotate.rounds.assignment import Items, Work
from captrial.annotate.rounds.base import (
    AnnotationRound,
    Answer,
    AnswerForm,
    SimulatedAnnotator,
    answers_per_item,
    items_in_need,
)
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings
from captrial.annotate.simulate import SimulationSettings, simulate_experiment
from captrial.annotate.web import app as web_app
from captrial.annotate.web.app import create_app
from captrial.compete.competition import Competition
from captrial.errors import InputError, StateError

RATERS = AnnotationSettings().discards
PAGE = """{% extends "round.html" %}
{% block task_data %}data-action="rate"{% endblock %}
{% block task %}<button data-key="1" data-answer='{"stars": 1}'>One star</button>{% endblock %}"""
ratings = Table(
    "ratings",
    metadata,
    Column("image", ForeignKey("images.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("stars", Integer, nullable=False),
    Column("created", Float, nullable=False),
    Column("seconds", Float),
)
metadata.remove(ratings)  # until the fixture adds it


class RatingForm(AnswerForm):
    """How good an image is."""

    action: ClassVar[str] = "rate"
    table: ClassVar[Table] = ratings

    stars: int = Field(ge=1, le=5)

    def row(self, person: int) -> Answer:
        return {"image": self.item, "stars": self.stars}


class RateRound(AnnotationRound):
    """Every active image is rated by two inspectors."""

    name = "rate"
    title = "Rate"
    description = "Rate an image."
    progress_title = "Images rated"
    roles = ("inspector",)
    table, item = ratings, ratings.c.image
    forms = (RatingForm,)
    shown = select(literal(5).label("most"))

    def people_wanted(self, settings: AnnotationSettings) -> int:
        return settings.discards  # a new round would have a setting of its own

    def work(self, items: Items = ()) -> Work:
        return _work(items)

    def show(self, item: int, row: Row[Any], person: int, competition: Competition) -> Answer:
        return {"image": item, "most": row.most}

    def progress(self, connection: Connection, settings: AnnotationSettings) -> tuple[int, int]:
        rated = answers_per_item(connection, ratings.c.image, select(images.c.id))
        return sum(rated), RATERS * len(rated)

    def simulate(self, shown: Answer, person: SimulatedAnnotator) -> tuple[str, Answer]:
        return "rate", {"stars": shown["most"]}


@cache
def _work(items: Items) -> Work:
    return items_in_need(images.c.id, ratings.c.image, "discards", items).where(images.c.active)


@pytest.fixture
def rate_round(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnnotationRound]:
    """The round, in the registry for one test."""
    round_ = RateRound()
    metadata._add_table("ratings", None, ratings)
    monkeypatch.setitem(ROUNDS, "rate", round_)
    environment = web_app.templates._environment
    monkeypatch.setattr(environment, "loader", ChoiceLoader([DictLoader({"rate.html": PAGE}), environment.loader]))
    yield round_
    metadata.remove(ratings)


def all_ratings(service: AnnotationService) -> list[tuple[int, int]]:
    with service.store.read() as connection:
        rows = connection.execute(select(ratings.c.image, ratings.c.stars).order_by(ratings.c.created)).all()
    return [(row.image, row.stars) for row in rows]


def test_every_round_has_what_pages_and_tables_need() -> None:
    for round_ in (QUALIFICATION, *ROUNDS.values()):
        assert round_.title
        assert round_.description.endswith(".")
        assert round_.roles
        assert {"person", "created"} <= set(round_.table.c.keys())
        assert web_app.templates._environment.get_template(round_.template)
    actions = [form.action for round_ in ROUNDS.values() for form in round_.forms]
    assert len(set(actions)) == len(actions)
    with pytest.raises(InputError, match="the rounds are: write, inspect, judge"):
        get_round("paint")


def test_a_new_round_works_through_the_service(rate_round: AnnotationRound, service: AnnotationService) -> None:
    ann, ivy = (join(service, name, role)[0] for name, role in (("ann", "annotator"), ("ivy", "inspector")))
    shown = service.next("rate", ivy)
    assert shown["most"] == 5
    form = RatingForm(item=shown["item"], stars=4, key=new_key())
    following = service.submit("rate", ivy, form)["next"]
    assert service.submit("rate", ivy, form)["taken"]  # sent again, it is stored once
    assert all_ratings(service) == [(shown["item"], 4)]
    assert following["item"] != shown["item"]
    assert following["done"] == 1
    with pytest.raises(StateError, match="not for the role annotator"):
        service.next("rate", ann)
    report = service.report()
    wanted = RATERS * len(service.active_images())
    assert [(part.done, part.wanted) for part in report["progress"] if part.round == "rate"] == [(1, wanted)]
    assert {person["name"]: person["items"] for person in report["people"]} == {"ann": 0, "ivy": 1}
    assert service.undo(ivy, "rate", new_key())["item"] == shown["item"]
    assert all_ratings(service) == []
    service.submit("rate", ivy, RatingForm(item=shown["item"], stars=2, key=new_key()))
    service.remove_person(ivy.id)
    assert all_ratings(service) == []


def test_a_new_round_works_over_http(rate_round: AnnotationRound, directory: Path) -> None:
    application: FastAPI = create_app(directory)
    with signing_in(application) as (service, sign_in):
        ivy, ann, lead = (sign_in(role, role) for role in ("inspector", "annotator", "lead"))
        home = ivy.get("/").text
        assert '<a class="button primary" href="/rate" title="Rate an image.">Rate</a>' in home
        page = ivy.get("/rate").text
        assert 'data-round="rate" data-action="rate"' in page
        assert "<h1>Rate</h1>" in page
        assert ann.get("/rate").status_code == 403
        assert ivy.get("/api/me").json()["rounds"] == ["inspect", "rate"]
        item = ivy.get("/api/next/rate").json()["item"]
        answer = {"item": item, "stars": 3, "key": new_key()}
        assert ivy.post("/api/rate", json={**answer, "stars": 9}).status_code == 422
        assert ann.post("/api/rate", json=answer).status_code == 403
        assert ivy.post("/api/rate", json=answer).json()["next"]["done"] == 1
        assert all_ratings(service) == [(item, 3)]
        rounds = lead.get("/api/lead/overview").json()["progress"]
        assert [(part["title"], part["done"]) for part in rounds if part["round"] == "rate"] == [("Images rated", 1)]
        assert ivy.post("/api/undo/rate", json={"key": new_key()}).json()["item"] == item
        assert all_ratings(service) == []


def test_without_the_line_in_the_registry_there_is_no_such_round(directory: Path) -> None:
    with signing_in(create_app(directory)) as (_, sign_in):
        ivy = sign_in("ivy", "inspector")
        assert ivy.get("/rate").status_code == 404
        assert ivy.get("/api/next/rate").status_code == 422
        assert ivy.post("/api/rate", json={"item": 1, "stars": 3, "key": new_key()}).status_code in (404, 405)


@pytest.mark.slow
def test_simulated_people_do_a_new_round(rate_round: AnnotationRound, directory: Path) -> None:
    names = Competition.open(directory).selected_images()
    known = {name: [f"{name} shows a brown horse in a wide green field"] for name in names}
    copy = directory.parent / "copy"
    simulate_experiment(directory, known, SimulationSettings(noise=0.0), out=copy)
    service = AnnotationService(copy)
    assert len(all_ratings(service)) == RATERS * len(service.active_images())
    service.close()
