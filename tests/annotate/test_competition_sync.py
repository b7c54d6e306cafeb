"""What a running service notices and keeps: models that join, removed people, older databases, images in shards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from annotate.annotation_world import ANIMALS, CAPTION, IMAGES, join, make_competition, submit_caption, submit_judgement
from captrial.annotate import competition_sync
from captrial.annotate.database.schema import images, settings
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings
from captrial.errors import MismatchError


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


def test_an_image_marked_by_hand_leaves_the_annotation_and_the_competition_alike(directory: Path) -> None:
    """The competition left it out and its reserve came in, while people went on describing the old one."""
    service = AnnotationService(directory)
    competition = Competition.open(directory)
    image = competition.selected_images()[0]
    competition.mark_indescribable(image)
    wait_for(lambda: image not in active(service))
    assert active(service) == set(Competition.open(directory).selected_images())
    other = sorted(active(service))[0]
    (directory / "references.jsonl").write_text(json.dumps({"id": other, "indescribable": True}) + "\n")
    wait_for(lambda: other not in active(service))
    assert active(service) == set(Competition.open(directory).selected_images())
    (directory / "references.jsonl").unlink()
    wait_for(lambda: other in active(service))
    service.close()


def test_a_database_belongs_to_one_competition(directory: Path, tmp_path: Path) -> None:
    AnnotationService(directory).close()
    (tmp_path / "other").mkdir()
    other = make_competition(tmp_path / "other")
    before = (directory / "annotations.sqlite").read_bytes()
    for read_only in (False, True):
        with pytest.raises(MismatchError, match="belongs to another competition"):
            AnnotationService(other, database=f"sqlite:///{directory / 'annotations.sqlite'}", read_only=read_only)
    assert (directory / "annotations.sqlite").read_bytes() == before
    assert not (other / "references.annotated.jsonl").exists()


def test_a_database_of_an_earlier_version_is_known_by_its_images(directory: Path, tmp_path: Path) -> None:
    service = AnnotationService(directory)
    with service.store.change() as connection:
        connection.execute(settings.delete().where(settings.c.name.in_(["competition", "database"])))
    service.close()
    (directory / "references.annotated.jsonl").unlink()
    elsewhere = Competition.create(tmp_path / "new", _renamed(tmp_path))
    elsewhere.select(SelectionSettings(2, 2))
    with pytest.raises(MismatchError, match="belongs to another competition"):
        AnnotationService(tmp_path / "new", database=f"sqlite:///{directory / 'annotations.sqlite'}")
    AnnotationService(directory).close()  # its own


def _renamed(folder: Path) -> dict[str, Path]:
    """Caption files of other images."""
    files = {}
    for name in ("model0", "model1"):
        records = [{"image_id": f"x{n}", "caption": f"a {ANIMALS[n % 6]} of {name} number {n}"} for n in range(8)]
        files[name] = folder / f"x{name}.json"
        files[name].write_text(json.dumps(records))
    return files


def test_the_thread_ends_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried again for ever where a competition was removed."""
    monkeypatch.setattr(competition_sync, "INTERVAL", 0.01)
    directory = tmp_path / "competition"
    directory.mkdir()
    sync = competition_sync.DirectorySync(directory, lambda: None, lambda: True)
    assert sync._thread.is_alive()
    directory.rmdir()
    sync._thread.join(20)
    assert not sync._thread.is_alive()
