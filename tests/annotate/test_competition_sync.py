"""What a running service notices and keeps: models that join, removed people, older databases, images in shards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from annotate.annotation_world import ANIMALS, CAPTION, IMAGES, join, make_competition, submit_caption, submit_judgement
from captrial.annotate.database.schema import images
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6000):  # naps are counted, not minutes: a busy machine is no failure
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it was not noticed")


def add_model(directory: Path, folder: Path) -> Competition:
    """A model that says what model0 says, but of one image."""
    said = [f"a {ANIMALS[n % 6]} stands in field number {n}" for n in range(IMAGES)]
    said[7] = "something quite different"
    records = [{"image_id": f"p{n}.png", "caption": text} for n, text in enumerate(said)]
    (folder / "late.json").write_text(json.dumps(records))
    competition = Competition.open(directory)
    competition.add_model("late", folder / "late.json")
    return competition


def active(service: AnnotationService) -> set[str]:
    return set(service.active_images())


def test_a_model_that_joins_is_noticed_while_people_work(tmp_path: Path) -> None:
    directory = make_competition(tmp_path, k=1, reserve=1)
    service = AnnotationService(directory)
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(judges=1))
        service.refresh_images(connection)
    person, before = join(service, "ann", "annotator")[0], active(service)
    item = service.next("write", person)["item"]
    add_model(directory, tmp_path).select()
    wait_for(lambda: service.competition.models == ("model0", "model1", "model2", "late") and active(service) > before)
    assert active(service) == set(Competition.open(directory).selected_images())
    assert submit_caption(service, person, item, CAPTION, "a-key-of-ann")["taken"]  # what somebody was writing goes on
    seen = set()
    following = service.next("judge", person)
    while following["item"] is not None:
        seen |= set(following["captions"])
        following = submit_judgement(service, person, following["item"], "tie", f"judging-{following['item']}")["next"]
    assert any(caption == "something quite different" for caption in seen)
    service.close()


def test_images_stay_while_others_are_being_selected(directory: Path) -> None:
    service = AnnotationService(directory)
    before = active(service)
    for path in (directory / "selection").glob("*.json"):
        path.rename(path.with_suffix(".gone"))  # as while `select --again` runs
    assert not service.reload_competition()
    with service.store.change() as connection:
        service.refresh_images(connection)
    assert active(service) == before
    for path in (directory / "selection").glob("*.gone"):
        path.rename(path.with_suffix(".json"))
    Competition.open(directory).select(SelectionSettings(1, 1), again=True)
    wait_for(lambda: active(service) != before)
    assert active(service) == set(Competition.open(directory).selected_images())
    service.close()


def test_an_image_of_the_qualification_may_be_selected_later(tmp_path: Path) -> None:
    directory = make_competition(tmp_path, k=1, reserve=0)
    service = AnnotationService(directory)
    rest = sorted({f"p{n}.png" for n in range(IMAGES)} - active(service))
    with service.store.change() as connection:
        set_images(service.store, connection, {name: [CAPTION] for name in rest})
    add_model(directory, tmp_path).select()
    service.reload_competition()
    with service.store.read() as connection:
        practised = set(connection.execute(select(images.c.image).where(images.c.qualification)).scalars())
    wanted = set(Competition.open(directory).selected_images())
    assert wanted & set(rest)
    assert practised == set(rest) - wanted
    service.close()
