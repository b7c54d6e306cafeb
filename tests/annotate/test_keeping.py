"""What a running room notices and keeps: models that join, removed people, older databases, images in shards."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from sqlalchemy import select

from annotate.conftest import SignIn
from annotate.world import ANIMALS, IMAGES, SENTENCE, join, make_competition
from captrial.annotate import accounts, live_ranking
from captrial.annotate.caption_import import import_references
from captrial.annotate.database import schema
from captrial.annotate.database.connection import Store
from captrial.annotate.database.schema import images
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.service import Room
from captrial.annotate.settings import Settings, write_settings
from captrial.annotate.web.images import ImageServer
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings
from captrial.data.image_source import ImageSource
from captrial.data.pools import build_pool
from captrial.errors import ImageError, MismatchError, StateError


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


def active(room: Room) -> set[str]:
    return set(room.active_images())


def test_a_model_that_joins_is_noticed_while_people_work(tmp_path: Path) -> None:
    directory = make_competition(tmp_path, k=1, reserve=1)
    room = Room(directory)
    with room.store.change() as connection:
        write_settings(room.store, connection, Settings(judges=1))
        room.refresh_images(connection)
    person, before = join(room, "ann", "annotator")[0], active(room)
    item = room.next("write", person)["item"]
    add_model(directory, tmp_path).select()
    wait_for(lambda: room.competition.models == ("model0", "model1", "model2", "late") and active(room) > before)
    assert active(room) == set(Competition.open(directory).selected_images())
    assert room.write(person, item, SENTENCE, "a-key-of-ann")["taken"]  # what somebody was writing goes on
    seen = set()
    following = room.next("judge", person)
    while following["item"] is not None:
        seen |= set(following["captions"])
        following = room.judge(person, following["item"], "tie", f"judging-{following['item']}")["next"]
    assert any(caption == "something quite different" for caption in seen)
    room.close()


def test_images_stay_while_others_are_being_selected(directory: Path) -> None:
    room = Room(directory)
    before = active(room)
    for path in (directory / "selection").glob("*.json"):
        path.rename(path.with_suffix(".gone"))  # as while `select --again` runs
    assert not room.reopen()
    with room.store.change() as connection:
        room.refresh_images(connection)
    assert active(room) == before
    for path in (directory / "selection").glob("*.gone"):
        path.rename(path.with_suffix(".json"))
    Competition.open(directory).select(SelectionSettings(1, 1), again=True)
    wait_for(lambda: active(room) != before)
    assert active(room) == set(Competition.open(directory).selected_images())
    room.close()


def test_a_image_of_the_qualification_may_be_selected_later(tmp_path: Path) -> None:
    directory = make_competition(tmp_path, k=1, reserve=0)
    room = Room(directory)
    rest = sorted({f"p{n}.png" for n in range(IMAGES)} - active(room))
    with room.store.change() as connection:
        set_images(room.store, connection, {name: [SENTENCE] for name in rest})
    add_model(directory, tmp_path).select()
    room.reopen()
    with room.store.read() as connection:
        practised = set(connection.execute(select(images.c.image).where(images.c.qualification)).scalars())
    wanted = set(Competition.open(directory).selected_images())
    assert wanted & set(rest)
    assert practised == set(rest) - wanted
    room.close()


def test_nothing_is_taken_from_somebody_who_was_removed_meanwhile(room: Room) -> None:
    person = join(room, "ann", "annotator")[0]
    item = room.next("write", person)["item"]
    with room.store.change() as connection:
        accounts.remove(room.store, connection, person.id, None)
    with pytest.raises(StateError, match="closed"):
        room.write(person, item, SENTENCE, "a-key-of-ann")
    with pytest.raises(StateError, match="closed"):
        room.save_draft(person, item, SENTENCE)


def test_people_are_remembered_until_somebody_is_removed(site: tuple[Room, SignIn]) -> None:
    _, sign_in = site
    lead, ann = sign_in("lead", "lead"), sign_in("ann", "annotator")
    sessions = ann.app.state.context.sessions
    number = next(one["id"] for one in lead.get("/api/lead/overview").json()["people"] if one["name"] == "ann")
    assert ann.get("/api/me").status_code == 200
    assert sessions.remembered(number).name == "ann"
    assert lead.delete(f"/api/lead/people/{number}").status_code == 200
    assert sessions.remembered(number) is None
    assert ann.get("/api/me").status_code == 401


def test_a_database_of_the_first_version_is_brought_up_to_date(database: str) -> None:
    store = Store(database)
    with store.change() as connection:
        person, _ = accounts.invite(store, connection, "ann", "annotator")
        connection.exec_driver_sql("ALTER TABLE receipts ADD COLUMN answer TEXT NOT NULL DEFAULT '{}'")
        connection.execute(schema.schema_version.update().values(version=1))
        connection.exec_driver_sql(f"INSERT INTO receipts VALUES ({person.id}, 'an-old-key', 1.0, '{{}}')")
    store.close()
    for _ in range(2):  # a column cannot be dropped twice
        store = Store(database)
        with store.change() as connection:
            assert connection.execute(select(schema.receipts.c.key)).scalars().all() == ["an-old-key"]
            assert connection.execute(select(schema.schema_version.c.version)).scalar_one() == schema.VERSION
        store.close()


def test_a_database_of_a_later_version_is_refused(database: str) -> None:
    store = Store(database)
    with store.change() as connection:
        connection.execute(schema.schema_version.update().values(version=schema.VERSION + 1))
    store.close()
    with pytest.raises(MismatchError, match="newer captrial"):
        Store(database)


def test_images_in_shards_are_served(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((300, 200), 90).convert("RGB").save(buffer, "PNG")
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        entry = tarfile.TarInfo("dog/1.png")
        entry.size = len(buffer.getvalue())
        shard.addfile(entry, io.BytesIO(buffer.getvalue()))
    build_pool([tmp_path / "shard.tar"], tmp_path / "pool")
    found = ImageSource(tmp_path / "pool")
    (name,) = found._known
    server = ImageServer(tmp_path / "served", found)
    assert Image.open(io.BytesIO(server.jpeg(name))).size == (300, 200)
    assert len(list((tmp_path / "served").iterdir())) == 1
    assert server.jpeg(name) == server.jpeg(name)
    with pytest.raises(ImageError):
        server.jpeg("another")


@pytest.mark.slow
def test_the_live_ranking_is_computed_elsewhere_and_remembered(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(directory)
    ranking = live_ranking.LiveRanking(room)
    assert ranking.get("cider") == {"ready": False, "labelled": 0}
    import_references(room, {image: [SENTENCE, f"{SENTENCE} again"] for image in room.competition.selected_images()})
    with monkeypatch.context() as here:  # one other process is enough: it is the one below
        here.setattr(
            live_ranking, "_elsewhere", lambda of, metric: live_ranking.live_ranking(Competition.open(of), metric)
        )
        found = ranking.get("cider")
    assert found["ready"]
    assert [entry["rank"] for entry in found["ranking"]] == sorted(entry["rank"] for entry in found["ranking"])
    with monkeypatch.context() as nowhere:
        nowhere.setattr(live_ranking, "_elsewhere", lambda *_: pytest.fail("the labels have not changed"))
        assert ranking.get("cider") is found
    with pytest.raises(StateError, match="computed: there is no metric 'nonsense'"):
        ranking.get("nonsense")
    room.close()
